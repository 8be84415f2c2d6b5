"""Serves the node's API on a unix socket in the state directory. Only the node's user can connect to it.

The handlers are in :mod:`syncpod.api`. This module has the socket, and the limits of clients: bytes of a head and of a
body, seconds of silence, and concurrent connections.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path
from typing import Final

from aiohttp import web

from syncpod.agent.http_answers import asked, given_up, sent, within
from syncpod.api.client import ANSWER_SECONDS, BODY_LIMIT, PATIENCE_SECONDS, SOCKET_NAME, socket_address
from syncpod.api.messages import Answer
from syncpod.api.routes import answer, refusal
from syncpod.api.source import PodSource
from syncpod.api.statuses import ApiError
from syncpod.http_server import HttpServer
from syncpod.kernel.listening import take_crowds

log = logging.getLogger(__name__)

CONNECTIONS: Final = 256
"""The most concurrent connections; each further one is closed at once. Each `syncpod` command opens one connection."""
_HEAD_LIMIT: Final = 64 * 1024
"""The most bytes of a request's first line, which may name fifty pods, and of each header."""
_GRACE_SECONDS: Final = 1.0
"""Seconds for which answers may still be sent when the server ends."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class _Server(HttpServer):
    """A server that closes each connection beyond `CONNECTIONS`."""

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self.connections) > CONNECTIONS:
            asyncio.get_running_loop().call_soon(transport.abort)  # the handler begins first, and ends by itself


class ApiServer:
    """The server of one node's socket."""

    def __init__(self, source: PodSource) -> None:
        """Answer from `source`, on the socket in its state directory."""
        self._source = source

    async def run(self) -> None:
        """Answer until cancelled. Raises OSError if the socket cannot be made."""
        server = _Server(
            self._serve,
            keepalive_timeout=PATIENCE_SECONDS,  # also ends a client that connects and sends nothing
            lingering_time=PATIENCE_SECONDS,
            tcp_keepalive=False,
            max_line_size=_HEAD_LIMIT,
            max_field_size=_HEAD_LIMIT,
        )
        listening = await asyncio.get_running_loop().create_unix_server(server, sock=_listener(self._source.state_dir))
        take_crowds(listening)
        try:
            async with listening:
                await listening.serve_forever()
        finally:
            await server.shutdown(_GRACE_SECONDS)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; close the connection if its client takes too long."""
        try:
            if request.headers.get("Expect", "").lower() == "100-continue":
                await within(PATIENCE_SECONDS, request.writer.write(_CONTINUE))
                request.writer.output_size = 0
            answered = await self._answered(request)
            return await sent(request, answered, _refused, patience=PATIENCE_SECONDS)
        except (OSError, TimeoutError) as gone:
            return given_up(request, "the node's API", gone)

    async def _answered(self, request: web.BaseRequest) -> Answer:
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            return refusal(ApiError(415, "a body may not be compressed"))
        length = request.content_length or 0
        if length > BODY_LIMIT:
            return refusal(ApiError(413, f"a body may have {BODY_LIMIT} bytes, not {length}"))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                body = await _body(request)
        except ValueError as too_long:
            return refusal(ApiError(413, f"{too_long}"))
        async with asyncio.timeout(ANSWER_SECONDS):  # a disk may hang, or Temporal's server
            try:
                return await answer(self._source, asked(request, body))
            except (OSError, TimeoutError):
                raise
            except Exception:
                log.exception("the node's API cannot answer %s %s", request.method, request.rel_url.path)
                return refusal(ApiError(500, "this node has failed to answer; its log says how"))


async def _body(request: web.BaseRequest) -> bytes:
    """Return the body. Raises ValueError if it is too long."""
    parts, size = [], 0
    async for part in request.content.iter_any():
        size += len(part)
        if size > BODY_LIMIT:
            raise ValueError(f"a body may have {BODY_LIMIT} bytes")
        parts.append(part)
    return b"".join(parts)


def _refused(error: Exception) -> Answer:
    return refusal(ApiError(500, f"{type(error).__name__}: {error}"))


def _listener(state_dir: Path) -> socket.socket:
    """Return the bound socket, in place of one that an earlier worker has left: there is one worker per node."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        os.fchmod(listener.fileno(), 0o600)  # before `bind`, so that the socket never has another mode
        (state_dir / SOCKET_NAME).unlink(missing_ok=True)
        with socket_address(state_dir) as address:
            listener.bind(address)
    except BaseException:
        listener.close()
        raise
    return listener
