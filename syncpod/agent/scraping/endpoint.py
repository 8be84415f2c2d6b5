"""Serves a node's metrics, health, pods and resource usage over HTTP, at the kubelet's paths.

No request changes the node. A web page in a browser on this machine cannot read the answers: the Host header of a
request must be an address, or localhost. Metrics show the names of pods and their usage to every client that can
connect, so the address should be on the loopback. ``/pods`` and ``/stats/summary`` show more: they require the token in
the state directory, and are served only on a loopback address, since the token is sent unencrypted.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import secrets
from pathlib import Path
from typing import Final

from aiohttp import web

from syncpod.agent.bound_port import bound_port
from syncpod.agent.http_answers import asked
from syncpod.agent.scraping.reading_routes import reading_routes
from syncpod.agent.scraping.readings import NodeReadings
from syncpod.api.messages import Answer, Request, in_one_part
from syncpod.http_server import PLAIN, serve
from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.callers import Callers, PeerOf
from syncpod.kernel.listening import BACKLOG
from syncpod.kernel.peers import find_peer

log = logging.getLogger(__name__)

_FOR_ALL: Final = ("/metrics", "/metrics/resource", "/healthz")
_FOR_OWNER: Final = ("/pods", "/stats/summary")
_TOKEN_FILE: Final = "reader-token"
_SHORTEST_TOKEN: Final = 32
"""The least characters of a token; a shorter one is replaced."""
_NO_TOKEN: Final = (
    f"show the token in the file {_TOKEN_FILE} of the node's state directory, which its owner can read: "
    "Authorization: Bearer TOKEN\n"
)


class NodeEndpoint:
    """The endpoint of one node. Belongs to the agent's event loop."""

    def __init__(self, host: str, port: int, readings: NodeReadings, *, peer_of: PeerOf = find_peer) -> None:
        """Serve at `port`, or at any free port if it is 0.

        Creates the token if there is none. Blocks. Raises OSError.
        """
        self._host, self._port, self._callers = host, port, Callers(peer_of)
        self._readings = readings
        self._handlers = {each.path: each.handle for each in reading_routes(readings)}
        self._token = ReaderToken(readings.node.state_dir)
        self._is_local = ipaddress.ip_address(host).is_loopback
        self.address: tuple[str, int] | None = None
        """The address and port at which the endpoint listens; None = not yet."""

    async def run(self) -> None:
        """Serve until cancelled. While another process has the port, retry: the node does not need this server."""
        with await bound_port(self._host, self._port, BACKLOG, "metrics") as listening:
            host, port = self.address = listening.getsockname()[:2]
            log.info("metrics are served at http://%s:%d/metrics", f"[{host}]" if ":" in host else host, port)
            await serve(self._serve, self._callers, listening)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = await self._answered(request)
        body = b"".join([part async for part in answer.parts])
        return web.Response(status=answer.code, headers=answer.headers, body=body)

    async def _answered(self, request: web.BaseRequest) -> Answer:
        if request.method not in ("GET", "HEAD"):
            return _plain(405, "only GET")
        if not _is_address(request.headers.get("Host", "")):
            return _plain(403, "the Host must be an address of this machine, or localhost")
        wanted = asked(request)
        path = wanted.path.rstrip("/")
        if path in _FOR_OWNER:
            return await self._to_its_owner(path, wanted, request.headers.get("Authorization", ""))
        if path in _FOR_ALL:
            return await self._handlers[path](wanted)
        if path == "/readyz":
            why = self._readings.obstacles()
            return _plain(503, "\n".join(why)) if why else _plain(200, "ok")
        return _plain(404, "/metrics, /metrics/resource, /healthz, /readyz, /pods or /stats/summary")

    async def _to_its_owner(self, path: str, wanted: Request, authorization: str) -> Answer:
        if not self._is_local:
            return _plain(403, "served only on a loopback address, since the token is sent unencrypted\n")
        if not self._token.is_shown(authorization):
            return in_one_part(_NO_TOKEN.encode(), PLAIN, 401, WWW_Authenticate='Bearer realm="syncpod"')
        return await self._handlers[path](wanted)


class ReaderToken:
    """The token of one node. It stays the same after restarts, so that readers configured with it keep working."""

    def __init__(self, state_dir: Path) -> None:
        """Read the token of this directory, or create one. Blocks. Raises OSError."""
        path = state_dir / _TOKEN_FILE
        try:
            self._text = path.read_text().strip()
        except (FileNotFoundError, UnicodeDecodeError):
            self._text = ""
        if len(self._text) < _SHORTEST_TOKEN or path.stat().st_mode & 0o077:  # others may have read it
            self._text = secrets.token_urlsafe(32)
            replace_file(path, f"{self._text}\n", durable=False)

    def is_shown(self, authorization: str) -> bool:
        """Say whether an Authorization header has the token."""
        scheme, _, shown = authorization.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            shown.strip().encode(errors="surrogateescape"), self._text.encode()
        )


def _plain(code: int, text: str) -> Answer:
    return in_one_part(text.encode(), PLAIN, code)


def _is_address(host: str) -> bool:
    """Say whether a Host header is an address or localhost, and not a name that a web page could have chosen."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name == "localhost"
    return True
