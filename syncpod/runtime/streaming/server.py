"""The HTTP server behind the URLs of exec, attach and port-forward.

One TCP port serves both protocols of Kubernetes' clients, WebSocket and SPDY/3.1. The server of the `websockets`
library refuses POST, so connections are accepted here, and requests are read within limits.

A client needs the token in a URL, and gets it only over the CRI socket. A web page that has guessed a token is refused
by its Origin or Host header.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from syncpod.kernel.callers import Callers, PeerOf
from syncpod.kernel.listening import take_crowds
from syncpod.kernel.peers import find_peer
from syncpod.runtime.port import Streams
from syncpod.runtime.streaming.channels import DIALECTS, UNNAMED, serve_over_channels
from syncpod.runtime.streaming.port_forwarding import (
    CHANNEL_DIALECTS,
    SPDY_PROTOCOLS,
    TUNNEL_PREFIX,
    Connect,
    forward_over_channels,
    forward_over_spdy,
)
from syncpod.runtime.streaming.remote_command import RemoteCommand
from syncpod.runtime.streaming.request import Refused, Request, read_request
from syncpod.runtime.streaming.spdy_command import VERSIONS, serve_over_spdy
from syncpod.runtime.streaming.tickets import Tickets
from syncpod.runtime.streaming.websocket import Tunnel, WebSocket
from syncpod.runtime.streaming.wire import Socket
from syncpod.streaming.spdy import CHUNK

logger = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 10.0
LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
VERSION_HEADER: Final = "X-Stream-Protocol-Version"


@dataclass(frozen=True)
class PortForward:
    """The request behind a port-forward URL."""

    connect: Connect
    ports: tuple[int, ...]
    """The ports of the CRI request. A SPDY client names its ports itself."""


class StreamingServer:
    """Gives out URLs, each valid for one connection within a minute, and serves them."""

    def __init__(self, peer_of: PeerOf = find_peer) -> None:
        """Use `peer_of` to identify the user at the other end of a connection."""
        # Only other users are limited, whose idle connections could use up the runtime's descriptors. The runtime's own
        # user may have a hundred terminals.
        self._callers = Callers(peer_of, bounds_owner=False)
        self._tickets: Tickets[tuple[str, RemoteCommand | PortForward]] = Tickets()
        self._connections: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._base = ""
        self._hosts = LOOPBACK_HOSTS

    @classmethod
    async def start(cls, host: str = "127.0.0.1", port: int = 0, *, peer_of: PeerOf = find_peer) -> StreamingServer:
        """Listen, by default on a port that the system chooses. Raises OSError."""
        server = cls(peer_of)
        server._listener = take_crowds(await asyncio.start_server(server._accept, host, port, limit=CHUNK))
        server._hosts = LOOPBACK_HOSTS | {host.lower()}
        name = f"[{host}]" if ":" in host else host
        server._base = f"http://{name}:{server._listener.sockets[0].getsockname()[1]}"
        return server

    def exec_url(
        self, open: Callable[[], Awaitable[Streams]], *, tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        """Return a URL for running a command once; `open` starts it.

        `open` may raise StartFailed or OSError, whose text the client gets. Raises TooManyTickets.
        """
        return self._url("exec", RemoteCommand(open, tty, stdin, stdout, stderr, attach=False))

    def attach_url(
        self, open: Callable[[], Awaitable[Streams]], *, tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        """Return a URL for attaching to a container once; `open` attaches.

        `open` may raise StartFailed or OSError, whose text the client gets. Raises TooManyTickets.
        """
        return self._url("attach", RemoteCommand(open, tty, stdin, stdout, stderr, attach=True))

    def port_forward_url(self, connect: Connect, ports: Sequence[int] = ()) -> str:
        """Return a URL for one connection, which carries any number of connections to a sandbox's ports.

        `connect` opens a connection to a port, and may raise OSError, whose text the client gets. `ports` are for
        clients that name no ports themselves. Raises TooManyTickets.
        """
        return self._url("portforward", PortForward(connect, tuple(ports)))

    def _url(self, kind: str, content: RemoteCommand | PortForward) -> str:
        return f"{self._base}/{kind}/{self._tickets.issue((kind, content))}"

    async def close(self) -> None:
        """Close all connections: executed commands are killed, attached containers run on."""
        if self._listener is not None:
            self._listener.close()
        connections = tuple(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._connected(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._callers.counted(writer) as has_room:
            if has_room:
                await self._converse(reader, writer)
            else:
                writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request of any kind to its end."""
        socket = Socket(reader, writer)
        try:
            try:
                request = await read_request(reader, seconds=REQUEST_SECONDS)
                if request is not None:
                    await self._serve(request, socket)
            except Refused as refused:
                await socket.write(refused.response())
                await socket.read_to_end()
        except ConnectionError:
            return  # the client has gone
        except Exception:
            logger.exception("a streaming connection failed")
        finally:
            await socket.close()

    async def _serve(self, request: Request, socket: Socket) -> None:
        """Find the request's ticket, and serve it to the end. Raises Refused, ConnectionError."""
        if request.host() not in self._hosts:
            raise Refused(HTTPStatus.FORBIDDEN, "the request's Host is not this machine's loopback address")
        if "origin" in request.headers:
            raise Refused(HTTPStatus.FORBIDDEN, "web pages are not served: the request has an Origin")
        kind, _, token = request.path[1:].partition("/")
        ticket = self._tickets.look(token)
        if ticket is None or ticket[0] != kind:
            raise Refused(
                HTTPStatus.NOT_FOUND, "no such URL, or it has been used, or a minute has passed since it was made"
            )
        content = ticket[1]
        if request.method not in ("GET", "POST"):
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST are served", [("Allow", "GET, POST")])
        if request.upgrades_to("websocket") and request.method == "GET":
            await self._over_websocket(content, token, request, socket)
        elif request.upgrades_to("spdy/3.1"):
            await self._over_spdy(content, token, request, socket)
        else:
            raise Refused(
                HTTPStatus.UPGRADE_REQUIRED,
                "the request has to upgrade to a WebSocket (GET) or to SPDY/3.1",
                [("Connection", "Upgrade"), ("Upgrade", "websocket, SPDY/3.1")],
            )

    async def _over_websocket(
        self, content: RemoteCommand | PortForward, token: str, request: Request, socket: Socket
    ) -> None:
        if isinstance(content, RemoteCommand):
            dialects, tunnels = DIALECTS, frozenset[str]()
        else:
            dialects = CHANNEL_DIALECTS if content.ports else {}
            tunnels = frozenset(TUNNEL_PREFIX + name for name in SPDY_PROTOCOLS)
        offered = request.values("sec-websocket-protocol")
        chosen = next((name for name in offered if name in dialects or name in tunnels), None)
        if chosen is None and (offered or not dialects):
            raise _unknown_protocol(offered, (*dialects, *sorted(tunnels)))
        self._tickets.use_up(token)
        websocket = await WebSocket.accept(socket, request.head, chosen)
        if websocket is None:
            return
        dialect = UNNAMED if chosen is None else dialects.get(chosen)
        if isinstance(content, RemoteCommand):
            assert dialect is not None
            await serve_over_channels(content, websocket, dialect)
        elif dialect is not None:
            await forward_over_channels(content.connect, content.ports, websocket, dialect)
        else:
            await forward_over_spdy(content.connect, Tunnel(websocket))
            await websocket.send_close()

    async def _over_spdy(
        self, content: RemoteCommand | PortForward, token: str, request: Request, socket: Socket
    ) -> None:
        supported = tuple(VERSIONS) if isinstance(content, RemoteCommand) else SPDY_PROTOCOLS
        offered = request.values(VERSION_HEADER.lower())
        chosen = next((name for name in offered if name in supported), None)
        if chosen is None:
            accepted = [(f"X-Accepted-{VERSION_HEADER[2:]}s", name) for name in supported]
            raise _unknown_protocol(offered, supported, accepted)
        self._tickets.use_up(token)
        await socket.write(
            "\r\n".join(
                [
                    "HTTP/1.1 101 Switching Protocols",
                    "Connection: Upgrade",
                    "Upgrade: SPDY/3.1",
                    f"{VERSION_HEADER}: {chosen}",
                    "",
                    "",
                ]
            ).encode()
        )
        if isinstance(content, RemoteCommand):
            await serve_over_spdy(content, socket, VERSIONS[chosen])
        else:
            await forward_over_spdy(content.connect, socket)


def _unknown_protocol(
    offered: Iterable[str], supported: Iterable[str], headers: Sequence[tuple[str, str]] = ()
) -> Refused:
    said = ", ".join(offered) or "none"
    return Refused(
        HTTPStatus.FORBIDDEN, f"the client offers protocols {said}; the server supports {', '.join(supported)}", headers
    )
