"""A server that unknown clients can reach: it bounds their connections, and the time that each may take.

Connections are accepted one by one, so that the bound holds before a client has sent anything. Until a request of a
connection is authorized, its client is a stranger. Two smaller bounds apply to strangers: one to all of them together,
and one to those at one address.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web

from syncpod.agent.background import cancel_all, until_one_fails
from syncpod.agent.bound_port import bound_port
from syncpod.http_server import HttpServer, Serve

log = logging.getLogger(__name__)

CONNECTIONS: Final = 512
"""The most concurrent connections; also at most a quarter of the process's descriptors."""
STRANGERS: Final = 256
"""The most concurrent connections of strangers."""
OF_ONE_ADDRESS: Final = 128
"""The most concurrent connections of strangers from one address. All connections of the API server may come from one
address."""
HANDSHAKE_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 30.0
"""Seconds for which a connection may be without a request."""
LINE_LIMIT: Final = 32 * 1024
"""The most bytes of a request's first line, which has the whole command of an exec."""
FIELD_LIMIT: Final = 8 * 1024
"""The most bytes of a header: a token has some thousand."""
HEADERS: Final = 64
_LINGER_SECONDS: Final = 2.0
"""Seconds that a client may take to close TLS."""
_GRACE_SECONDS: Final = 1.0
"""Seconds for which answers may still be sent when the server ends."""
_BACKLOG: Final = 128


class _Server(HttpServer):
    """An HTTP server that calls `lost` with each connection that has ended."""

    def __init__(self, serve: Serve, lost: Callable[[web.RequestHandler], None]) -> None:
        super().__init__(
            serve,
            handler_cancellation=True,  # nothing else shows that a follower of a log has left
            keepalive_timeout=SILENCE_SECONDS,  # also ends a client that connects and sends nothing
            lingering_time=0.0,  # no request has a body that is needed, and reading one would block the loop
            max_line_size=LINE_LIMIT,
            max_field_size=FIELD_LIMIT,
            max_headers=HEADERS,
        )
        self._lost = lost

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._lost(handler)


class Listener:
    """Serves requests at addresses of the node. All methods belong to one event loop."""

    def __init__(
        self,
        addresses: Sequence[str],
        port: int,
        context: ssl.SSLContext | None,
        serve: Serve,
        *,
        called: str = "the kubelet's port",
    ) -> None:
        """Serve `addresses` at `port`; 0 = any free port at each address. Without `context`, there is no TLS.

        `called` is the server's name in the log.
        """
        self._called = called
        self._addresses, self._port, self._context = addresses, port, context
        self._server = _Server(serve, self._lost)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = CONNECTIONS if soft == resource.RLIM_INFINITY else min(CONNECTIONS, soft // 4)
        self._open = 0
        self._strangers: Counter[str] = Counter()
        """Connections of strangers, by address."""
        self._handlers: dict[web.RequestHandler, str] = {}
        """The connections' addresses by handler; "" once the client is no stranger any more."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.ports: dict[str, int] = {}
        """The ports at which it listens, by address."""

    async def run(self) -> None:
        """Serve until cancelled. While an address cannot be bound, retry: the node does not need this server."""
        try:
            await until_one_fails([asyncio.ensure_future(self._listen(each)) for each in self._addresses])
        finally:
            await cancel_all(self._tasks)
            await self._server.shutdown(_GRACE_SECONDS)

    def trust(self, request: web.BaseRequest) -> None:
        """No longer count the client of an authorized request as a stranger."""
        address = self._handlers.get(request.protocol)
        if address:
            self._handlers[request.protocol] = ""
            self._strangers -= Counter([address])

    async def _listen(self, address: str) -> None:
        with await bound_port(address, self._port, _BACKLOG, self._called) as listening:
            self.ports[address] = listening.getsockname()[1]
            log.info("%s is served at %s port %d", self._called, address, self.ports[address])
            loop = asyncio.get_running_loop()
            while True:
                try:
                    accepted, peer = await loop.sock_accept(listening)
                except OSError as error:  # no descriptor is free, or the client has gone at once
                    log.debug("a connection to the kubelet's port cannot be accepted: %s", error)
                    await asyncio.sleep(0.1)
                    continue
                self._admit(accepted, str(peer[0]))

    def _admit(self, accepted: socket.socket, address: str) -> None:
        """Serve a new connection if there is room for it, else close it."""
        strangers = self._strangers
        if (
            self._open >= self._most
            or strangers.total() >= min(STRANGERS, self._most // 2)
            or strangers[address] >= min(OF_ONE_ADDRESS, self._most // 4)
        ):
            accepted.close()
            return
        self._open += 1
        strangers[address] += 1
        task = asyncio.create_task(self._begin(accepted, address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _begin(self, accepted: socket.socket, address: str) -> None:
        """Do the TLS handshake with a client; then the HTTP server has the connection."""
        handler = self._server()
        self._handlers[handler] = address
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: handler,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=None if self._context is None else _LINGER_SECONDS,
            )
        except OSError as error:  # also SSLError
            log.debug("a client of the kubelet's port is given up in its handshake: %s", error)
            self._lost(handler)
        except asyncio.CancelledError:
            self._lost(handler)
            accepted.close()
            raise

    def _lost(self, handler: web.RequestHandler) -> None:
        address = self._handlers.pop(handler, None)
        if address is None:
            return
        self._open -= 1
        if address:
            self._strangers -= Counter([address])
