"""A small HTTP server for monitoring: one request per connection, and only method, path and two headers are read.

Any client that can connect may send requests, so the server limits connections (:mod:`syncpod.kernel.callers`), and
gives each request ten seconds. A web page in a browser on this machine cannot read the answers: the Host header of a
request must be an address, or localhost.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from syncpod.kernel import early_listening
from syncpod.kernel.callers import Callers, PeerOf
from syncpod.kernel.listening import take_crowds
from syncpod.kernel.peers import find_peer

log = logging.getLogger(__name__)

PLAIN: Final = "text/plain; charset=utf-8"
_HEAD_LIMIT: Final = 8 * 2**10
_PATIENCE_SECONDS: Final = 10.0
_LISTEN_SECONDS: Final = 5.0
"""Seconds between two tries to bind the address."""


class ScrapeRequest(NamedTuple):
    """A client's request."""

    path: str
    """The path without the query."""
    authorization: str
    """The Authorization header; "" = there is none."""


class ScrapeAnswer(NamedTuple):
    """The answer to a request."""

    status: str
    """The status code with its text: ``200 OK``."""
    body: bytes
    kind: str = PLAIN
    """The content type."""
    headers: Mapping[str, str] = {}
    """Further headers."""


class HttpServer:
    """Serves one address."""

    def __init__(
        self,
        host: str,
        port: int,
        answer: Callable[[ScrapeRequest], Awaitable[ScrapeAnswer]],
        *,
        peer_of: PeerOf = find_peer,
    ) -> None:
        """Answer each request with `answer`. With port 0, any free port is used."""
        self._host, self._port, self._answer = host, port, answer
        self._callers = Callers(peer_of)
        self.addresses: tuple[tuple[str, int], ...] = ()
        """The addresses at which the server listens; empty = none yet."""

    async def run(self) -> None:
        """Serve until cancelled. While another process has the address, retry: the node does not need this server."""
        server = await self._listen()
        self.addresses = tuple(listening.getsockname()[:2] for listening in server.sockets)
        log.info("metrics are served at %s", ", ".join(_url(*address) for address in self.addresses))
        async with server:
            await server.serve_forever()

    async def _listen(self) -> asyncio.Server:
        early, is_logged = early_listening.taken(self._host, self._port), False
        if early is not None:
            return take_crowds(await asyncio.start_server(self._serve, sock=early, limit=_HEAD_LIMIT))
        while True:
            try:
                server = await asyncio.start_server(self._serve, self._host, self._port, limit=_HEAD_LIMIT)
                return take_crowds(server)
            except OSError as error:
                if not is_logged:
                    log.error("metrics cannot be served at %s port %d: %s", self._host, self._port, error.strerror)
                is_logged = True
            await asyncio.sleep(_LISTEN_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._callers.counted(writer) as has_room:
            try:
                if has_room:
                    async with asyncio.timeout(_PATIENCE_SECONDS):
                        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                        writer.write(await self._response(head.split("\r\n")))
                        writer.close()
                        await writer.wait_closed()
            except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                log.debug("a request for metrics failed: %s", error)
            finally:
                writer.transport.abort()  # a client that does not read its answer would keep its slot

    async def _response(self, head: Sequence[str]) -> bytes:
        """Return the answer to a request with this head. Raises ValueError for an invalid head."""
        method, target, _ = head[0].split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        request = ScrapeRequest(target.partition("?")[0], headers.get("authorization", ""))
        answer = await self._checked(method, headers.get("host", ""), request)
        sent = {
            "Content-Type": answer.kind,
            "Content-Length": str(len(answer.body)),
            "Connection": "close",
            **answer.headers,
        }
        lines = (f"HTTP/1.1 {answer.status}", *(f"{name}: {value}" for name, value in sent.items()), "", "")
        return "\r\n".join(lines).encode() + (answer.body if method != "HEAD" else b"")

    async def _checked(self, method: str, host: str, request: ScrapeRequest) -> ScrapeAnswer:
        if method not in ("GET", "HEAD"):
            return ScrapeAnswer("405 Method Not Allowed", b"only GET")
        if not _is_address(host):
            return ScrapeAnswer("403 Forbidden", b"the Host must be an address of this machine, or localhost")
        return await self._answer(request)


def _is_address(host: str) -> bool:
    """Say whether a Host header is an address or localhost, and not a name that a web page could have chosen."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name == "localhost"
    return True


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
