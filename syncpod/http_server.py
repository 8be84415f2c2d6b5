"""The node's HTTP servers, with aiohttp: their common part, and the limits of a server that any client may reach.

`serve` is such a server. It answers one request per connection, within ten seconds, and limits the connections of each
user and of each machine (:mod:`syncpod.kernel.callers`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from syncpod.kernel.callers import Callers
from syncpod.kernel.listening import take_crowds

PLAIN: Final = "text/plain; charset=utf-8"
PATIENCE_SECONDS: Final = 10.0
"""Seconds that a client of `serve` has to send its request and to read the answer."""
_LINE_LIMIT: Final = 8 * 1024
"""Maximum bytes of a request's first line, and of a header."""
_HEADERS: Final = 64
_GRACE_SECONDS: Final = 1.0
"""Seconds for which answers may still be sent after a server has ended."""

Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _Request(web.BaseRequest):
    """A request whose response does not name the versions of Python and aiohttp."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        response.headers.popall("Server", None)


def _is_defect(record: logging.LogRecord) -> bool:
    """Return whether a log entry shows a defect.

    A request that is not HTTP is no defect, since any client may send one.
    """
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


_log = logging.getLogger(__name__)
_log.addFilter(_is_defect)


class HttpServer(web.Server):
    """A server that decompresses no body, since a client could block the event loop with one."""

    def __init__(self, serve: Serve, **limits: Any) -> None:
        """Answer each request with `serve`. `limits` are those of aiohttp."""
        made = partial(_Request, loop=asyncio.get_running_loop())
        super().__init__(serve, request_factory=made, access_log=None, auto_decompress=False, logger=_log, **limits)


class _CountedServer(HttpServer):
    """Answers one request per connection. Closes the connection of a client that is slow or has too many."""

    def __init__(self, serve: Serve, callers: Callers) -> None:
        async def serve_one(request: web.BaseRequest) -> web.StreamResponse:
            response = await serve(request)
            response.force_close()
            return response

        super().__init__(
            serve_one,
            handler_cancellation=True,  # a closed connection ends its handler, also at the time limit
            keepalive_timeout=0.0,  # the time limit is for the whole connection
            lingering_time=0.0,  # the unneeded rest of a body is not read
            tcp_keepalive=False,
            max_line_size=_LINE_LIMIT,
            max_field_size=_LINE_LIMIT,
            max_headers=_HEADERS,
        )
        self._callers = callers
        self._open: dict[web.RequestHandler, ExitStack] = {}
        """By connection: its count and its time limit, which end with it."""

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        loop = asyncio.get_running_loop()
        connection = self._open[handler] = ExitStack()
        has_room = connection.enter_context(self._callers.counted(transport))
        if has_room:
            connection.callback(loop.call_later(PATIENCE_SECONDS, transport.abort).cancel)
        else:
            loop.call_soon(transport.abort)  # not at once, so that the handler has begun and can end by itself

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._open.pop(handler).close()


async def serve(answer: Serve, callers: Callers, listening: socket.socket) -> None:
    """Answer requests at a listening socket with `answer`, until cancelled. `callers` counts the connections."""
    server = _CountedServer(answer, callers)
    accepting = take_crowds(await asyncio.get_running_loop().create_server(server, sock=listening))
    try:
        await asyncio.get_running_loop().create_future()  # `serve_forever` would wait for silent clients at its end
    finally:
        accepting.close()
        await server.shutdown(_GRACE_SECONDS)
