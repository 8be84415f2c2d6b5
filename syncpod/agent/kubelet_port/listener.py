"""A server that strangers can reach: their connections, and the time that each may take, are bounded.

Connections are accepted one by one, so that the bound holds before a client has said anything. A client that has not
yet shown that it may do something here is a stranger: of those there are fewer, and few from one address.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aiohttp import web

from syncpod.agent.background import cancel_all, until_one_fails
from syncpod.agent.http_answers import is_defect
from syncpod.kernel import early_listening

log = logging.getLogger(__name__)

CONNECTIONS: Final = 512
"""At most so many at a time, and no more than a quarter of the process's descriptors."""
STRANGERS: Final = 256
OF_ONE_ADDRESS: Final = 128
"""Strangers of one address. The API server's own connections are of one."""
HANDSHAKE_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 30.0
"""Of a connection without a request, or between two."""
LINE_LIMIT: Final = 32 * 1024
"""Bytes of a request's first line, which has the whole command of an exec."""
FIELD_LIMIT: Final = 8 * 1024
"""Bytes of each header: a token has some thousand."""
HEADERS: Final = 64
_LINGER_SECONDS: Final = 2.0
_GRACE_SECONDS: Final = 1.0
"""How long answers may still be sent when the server ends."""
_LISTEN_SECONDS: Final = 5.0
"""Between two tries to get an address."""
_BACKLOG: Final = 128

_LOG_OF_HTTP: Final = logging.getLogger(f"{__name__}.http")
_LOG_OF_HTTP.addFilter(is_defect)

Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _Server(web.Server):
    """Tells of each connection that is lost."""

    def __init__(self, serve: Serve, lost: Callable[[web.RequestHandler], None]) -> None:
        super().__init__(
            serve,
            handler_cancellation=True,  # a follower of a log that has gone is not told of by anything else
            access_log=None,
            keepalive_timeout=SILENCE_SECONDS,  # from the connection on: also for a client that sends nothing
            # No request has a body that matters. One that is left is not read to its end, and never unpacked: both
            # would happen on the loop, at the cost that its sender chooses.
            lingering_time=0.0,
            auto_decompress=False,
            max_line_size=LINE_LIMIT,
            max_field_size=FIELD_LIMIT,
            max_headers=HEADERS,
            logger=_LOG_OF_HTTP,
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
        """With port 0, any free port is used at each address; without a context, there is no TLS.

        `called` is its name in the log.
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
        """Connections after the handshake; "" once it is no stranger's any more."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.ports: dict[str, int] = {}
        """The ports that it listens at, by address."""

    async def run(self) -> None:
        """Serve until cancelled. If an address cannot be had, try again: the node must run without it."""
        try:
            await until_one_fails([asyncio.ensure_future(self._listen(each)) for each in self._addresses])
        finally:
            await cancel_all(self._tasks)
            await self._server.shutdown(_GRACE_SECONDS)

    def trust(self, request: web.BaseRequest) -> None:
        """Count the connection of a request, which may be answered, as no stranger's any more."""
        address = self._handlers.get(request.protocol)
        if address:
            self._handlers[request.protocol] = ""
            self._strangers -= Counter([address])

    async def _listen(self, address: str) -> None:
        with await self._bound(address) as listening:
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

    async def _bound(self, address: str) -> socket.socket:
        """Return the socket that listens there, which may have done so since before this process began."""
        early, is_logged = early_listening.taken(address, self._port), False
        if early is not None:
            early.listen(_BACKLOG)
            return early
        while True:
            listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            try:
                listening.setblocking(False)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind((address, self._port))
                listening.listen(_BACKLOG)
            except OSError as error:
                listening.close()
                if not is_logged:
                    log.error(
                        "%s cannot be served at %s port %d: %s", self._called, address, self._port, error.strerror
                    )
                is_logged = True
            else:
                return listening
            await asyncio.sleep(_LISTEN_SECONDS)

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
        """Shake hands with a client; from then on the connection is the HTTP server's."""
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
        except OSError as error:  # an SSLError is one too
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
