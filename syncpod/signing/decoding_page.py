"""Decodes payloads for the Temporal UI, whose browser sends no token.

Under a secret path, a web page of any origin may decode payloads, and nothing else. Another user may read that path in
the command line of a browser or a tool, so only processes of the owner and of root are answered.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from typing import Final

from aiohttp import web
from temporalio.api.common.v1 import Payload

from syncpod.http_server import serve
from syncpod.kernel.callers import Callers, PeerOf
from syncpod.kernel.peers import find_peer
from syncpod.messages.signature import Keys
from syncpod.signing.payload_requests import HOST, answered, refused, same_secret, split_path
from syncpod.temporal.encryption import readable

_FOR_PAGES: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "content-type, x-namespace",
}


class DecodingPage:
    """Answers requests under a secret path: the codec endpoint for web pages."""

    def __init__(self, keys: Keys) -> None:
        """Decrypt with `keys`, under a new random path, `name`."""
        self._keys = keys
        self.name = secrets.token_urlsafe(32)

    def is_for(self, request: web.BaseRequest) -> bool:
        """Return whether a request has the path."""
        return same_secret(split_path(request)[0], f"/{self.name}")

    async def answer(self, request: web.BaseRequest, is_owners: bool) -> web.Response:
        """Answer a browser's preflight request (OPTIONS), or decode the payloads in a request.

        `is_owners` is True if the browser is a process of the owner or of root; any other browser is refused.
        """
        if not is_owners:
            return refused(403, "only the user of this codec server, and root, may decode")
        answer = await self._for_page(request)
        answer.headers.update(_FOR_PAGES)
        return answer

    async def _for_page(self, request: web.BaseRequest) -> web.Response:
        if request.method == "OPTIONS":
            return web.Response(content_type="application/json")
        if (request.method, split_path(request)[1]) != ("POST", "decode"):
            return refused(404, "POST /decode")
        return await answered(request, self._decoded)

    def _decoded(self, payload: Payload) -> Payload:
        return readable(self._keys.by_id, payload)


async def serve_page(keys: Keys, port: int, serving: Callable[[str], None], peer_of: PeerOf = find_peer) -> None:
    """Decode for web pages until cancelled, at a port of the loopback address, 0 = a free one. Raises OSError.

    `serving` is called with the endpoint, which is a secret. Only processes of this user and of root are answered.
    """
    page, callers = DecodingPage(keys), Callers(peer_of)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if not page.is_for(request):
            return refused(404, "there is nothing here")
        return await page.answer(request, callers.is_owners(request))

    with socket.create_server((HOST, port)) as listening:
        serving(f"http://{HOST}:{listening.getsockname()[1]}/{page.name}")
        await serve(answer, callers, listening)
