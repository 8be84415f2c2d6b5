"""Decodes payloads for the Temporal UI, whose browser sends no token.

Under a secret path, a web page of any origin may decode payloads, and nothing else. Another user may read that path in
the command line of a browser or a tool, so only processes of the owner and of root are answered.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from typing import Final

from temporalio.api.common.v1 import Payload

from syncpod.kernel.callers import Callers, PeerOf
from syncpod.kernel.listening import take_crowds
from syncpod.kernel.peers import find_peer
from syncpod.messages.signature import Keys
from syncpod.signing.payload_requests import HEAD_LIMIT, HOST, TOO_LARGE, Answer, RequestHead, answered, serve_request
from syncpod.temporal.encryption import readable

_FOR_PAGES: Final = (
    "Access-Control-Allow-Origin: *\r\n"
    "Access-Control-Allow-Methods: POST\r\n"
    "Access-Control-Allow-Headers: content-type, x-namespace\r\n"
)


class DecodingPage:
    """Answers requests under a secret path: the codec endpoint for web pages."""

    def __init__(self, keys: Keys) -> None:
        """Decrypt with `keys`, under a new random path, `name`."""
        self._keys = keys
        self.name = secrets.token_urlsafe(32)

    def is_for(self, request: RequestHead) -> bool:
        """Return whether a request has the path."""
        return hmac.compare_digest(request.before.encode("latin-1"), f"/{self.name}".encode())

    async def answer(self, request: RequestHead, is_owners: bool) -> Answer:
        """Answer a browser's preflight request (OPTIONS), or decode the payloads in a request.

        `is_owners` is True if the browser is a process of the owner or of root; any other browser is refused.
        """
        if not is_owners:
            return 403, b"only the user of this codec server, and root, may decode", ""
        if request.method == "OPTIONS":
            return 200, b"", _FOR_PAGES
        if (request.method, request.verb) != ("POST", "decode"):
            return 404, b"POST /decode", _FOR_PAGES
        if (body := await request.body()) is None:
            return *TOO_LARGE[:2], _FOR_PAGES
        return *answered(body, self._decoded), _FOR_PAGES

    def _decoded(self, payload: Payload) -> Payload:
        return readable(self._keys.by_id, payload)


async def serve_page(keys: Keys, port: int, serving: Callable[[str], None], peer_of: PeerOf = find_peer) -> None:
    """Decode for web pages until cancelled, at a port of the loopback address, 0 = a free one. Raises OSError.

    `serving` is called with the endpoint, which is a secret. Only processes of this user and of root are answered.
    """
    page, callers = DecodingPage(keys), Callers(peer_of)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def answer(request: RequestHead) -> Answer:
            if not page.is_for(request):
                return 404, b"there is nothing here", ""
            return await page.answer(request, callers.is_owners(writer))

        await serve_request(reader, writer, callers, answer)

    server = take_crowds(await asyncio.start_server(serve, HOST, port, limit=HEAD_LIMIT))
    async with server:
        serving(f"http://{HOST}:{server.sockets[0].getsockname()[1]}/{page.name}")
        await server.serve_forever()
