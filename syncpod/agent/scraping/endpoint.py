"""Serves a node's metrics, health, pods and resource usage over HTTP, at the kubelet's paths.

No request changes the node. Metrics show the names of pods and their usage to every client that can connect, so the
address should be on the loopback. ``/pods`` and ``/stats/summary`` show more: they require the token in the state
directory, and are served only on a loopback address, since the token is sent unencrypted.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from syncpod.agent.scraping.http_server import HttpServer, ScrapeAnswer, ScrapeRequest
from syncpod.agent.scraping.readings import CONTENT_TYPE, NodeReadings
from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.callers import PeerOf
from syncpod.kernel.peers import find_peer

_JSON: Final = "application/json"
_TOKEN_FILE: Final = "reader-token"
_SHORTEST_TOKEN: Final = 32
"""The least characters of a token; a shorter one is replaced."""
_NO_TOKEN: Final = (
    f"show the token in the file {_TOKEN_FILE} of the node's state directory, which its owner can read: "
    "Authorization: Bearer TOKEN\n"
).encode()


class NodeEndpoint:
    """The endpoint of one node. Belongs to the agent's event loop."""

    def __init__(self, host: str, port: int, readings: NodeReadings, *, peer_of: PeerOf = find_peer) -> None:
        """Serve at `port`, or at any free port if it is 0.

        Creates the token if there is none. Blocks. Raises OSError.
        """
        self.server = HttpServer(host, port, self._answer, peer_of=peer_of)
        self._readings = readings
        self._token = ReaderToken(readings.node.state_dir)
        self._is_local = ipaddress.ip_address(host).is_loopback

    async def run(self) -> None:
        """Serve until cancelled."""
        await self.server.run()

    async def _answer(self, request: ScrapeRequest) -> ScrapeAnswer:
        readings = self._readings
        match request.path:
            case "/metrics":
                return ScrapeAnswer("200 OK", await readings.metrics(), CONTENT_TYPE)
            case "/metrics/resource":
                return ScrapeAnswer("200 OK", await readings.resource_metrics(), CONTENT_TYPE)
            case "/healthz":
                return ScrapeAnswer("200 OK", b"ok")
            case "/readyz":
                why = readings.obstacles()
                return (
                    ScrapeAnswer("503 Service Unavailable", "\n".join(why).encode())
                    if why
                    else ScrapeAnswer("200 OK", b"ok")
                )
            case "/pods" | "/pods/":
                return await self._to_its_owner(request, readings.pods)
            case "/stats/summary" | "/stats/summary/":
                return await self._to_its_owner(request, readings.summary)
        known = b"/metrics, /metrics/resource, /healthz, /readyz, /pods or /stats/summary"
        return ScrapeAnswer("404 Not Found", known)

    async def _to_its_owner(self, request: ScrapeRequest, make: Callable[[], Awaitable[bytes]]) -> ScrapeAnswer:
        if not self._is_local:
            return ScrapeAnswer(
                "403 Forbidden", b"served only on a loopback address, since the token is sent unencrypted\n"
            )
        if not self._token.is_shown(request.authorization):
            return ScrapeAnswer("401 Unauthorized", _NO_TOKEN, headers={"WWW-Authenticate": 'Bearer realm="syncpod"'})
        return ScrapeAnswer("200 OK", await make(), _JSON)


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
        return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), self._text.encode())
