"""Decodes for the Temporal UI, whose browser has no token.

Under a secret path a page of any origin may decode, and do nothing else. The path alone is not enough: another user
may have read it in a browser's or a tool's command line, so only the owner's browser and root's are answered.
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
    """The answer to a page that knows the path."""

    def __init__(self, keys: Keys) -> None:
        """Decrypt with `keys`. The path is another one each time."""
        self._keys = keys
        self.name = secrets.token_urlsafe(32)

    def is_for(self, request: RequestHead) -> bool:
        """Say whether a request has the path."""
        return hmac.compare_digest(request.before.encode("latin-1"), f"/{self.name}".encode())

    async def answer(self, request: RequestHead, is_owners: bool) -> Answer:
        """Answer the browser's question whether it may ask, and then decode its payloads.

        `is_owners` says whether the browser is that of the owner, or root's.
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
    """Decode for pages until cancelled, at a port of the loopback address, 0 = a free one. Raises OSError.

    `serving` gets the endpoint, which is a secret. Only this process's user, and root, are answered there.
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
