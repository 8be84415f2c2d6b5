"""Serves a node's metrics, health, pods and resource usage over HTTP, at the kubelet's paths.

Only the path of a request matters, and for the pods themselves a token. No request changes the node. Metrics show the
names of pods and their usage to everyone who can connect, so the address should be on the loopback. ``/pods`` and
``/stats/summary`` show more: they require the token of the state directory, and are served only on a loopback address,
since the token is sent unencrypted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Final

from syncpod.agent.scraping.http_server import HttpServer, ScrapeAnswer, ScrapeRequest
from syncpod.agent.scraping.reader_token import FILE_NAME, ReaderToken
from syncpod.agent.scraping.readings import CONTENT_TYPE, NodeReadings
from syncpod.kernel.callers import PeerOf
from syncpod.kernel.peers import find_peer

_JSON: Final = "application/json"
_NO_TOKEN: Final = (
    f"show the token in the file {FILE_NAME} of the node's state directory, which its owner can read: "
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
