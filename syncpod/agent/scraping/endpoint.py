"""Serves ``/metrics``, ``/healthz`` and ``/readyz`` of a node over HTTP (the kubelet's paths).

Nothing of a request counts but its path: there is nothing to configure, and nothing that changes the node. Who may
connect may read the names of the pods, so the address should be on the loopback. A web page cannot read it, although
the browser of this machine's user could connect: the Host that it names must be an address, or localhost.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from prometheus_client import REGISTRY, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.scraping.pod_series import pod_series
from syncpod.agent.scraping.probe_counts import ProbeCounts
from syncpod.agent.scraping.terminations import Terminations
from syncpod.kernel.callers import Callers, PeerOf
from syncpod.kernel.peers import find_peer
from syncpod.temporal.workflow_watch import Published

log = logging.getLogger(__name__)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_HEAD_LIMIT: Final = 8 * 2**10
_PATIENCE_SECONDS: Final = 10.0
_COUNT_SECONDS: Final = 5.0
"""How often ends are counted while nobody scrapes."""
_FRESH_SECONDS: Final = 1.0
_LISTEN_SECONDS: Final = 5.0
"""Between two tries to get the address."""
_WITHOUT_TOTAL: Final = frozenset({"kubelet_evictions", "kubelet_pleg_discard_events"})
"""Counters to whose names the kubelet does not add ``_total``."""


class MetricsEndpoint:
    """The HTTP server of one node's metrics."""

    def __init__(
        self,
        host: str,
        port: int,
        published: PublishedPods,
        *,
        obstacles: Callable[[], Sequence[str]],
        terminations: Terminations,
        probes: ProbeCounts,
        peer_of: PeerOf = find_peer,
    ) -> None:
        """Serve what `published` has, at any free port if `port` is 0. `obstacles` says why the node is not ready."""
        self._host, self._port, self._published, self._obstacles = host, port, published, obstacles
        self._terminations, self._probes = terminations, probes
        self._callers = Callers(peer_of)
        self._untold: list[Published] = []
        """What was published since ends were counted."""
        self._pods: dict[str, tuple[Published, Mapping[str, Any]]] = {}
        """By workflow: the Pod of its newest state, which is read once."""
        self._reading, self._rendering = asyncio.Lock(), asyncio.Lock()
        self._text, self._stale_at = b"", 0.0
        self.addresses: tuple[tuple[str, int], ...] = ()
        """Where it listens; nothing = not yet."""
        published.watch(self._untold.append)

    async def run(self) -> None:
        """Serve until cancelled. An address that another process has is tried again: the pods come first."""
        server = await self._listen()
        self.addresses = tuple(listening.getsockname()[:2] for listening in server.sockets)
        log.info("metrics are served at %s", ", ".join(_url(*address) for address in self.addresses))
        async with server:
            while True:
                await asyncio.sleep(_COUNT_SECONDS)
                await self._read_pods()

    async def _listen(self) -> asyncio.Server:
        is_told = False
        while True:
            try:
                return await asyncio.start_server(self._serve, self._host, self._port, limit=_HEAD_LIMIT)
            except OSError as error:
                if not is_told:
                    log.error("metrics cannot be served at %s port %d: %s", self._host, self._port, error.strerror)
                is_told = True
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
                writer.transport.abort()  # who does not read the answer would keep the room

    async def _response(self, head: Sequence[str]) -> bytes:
        """Return the answer to a request with this head. Raises ValueError if it is none."""
        method, target, _ = head[0].split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        status, kind, body = await self._answer(method, target.partition("?")[0], headers.get("host", ""))
        said = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return said.encode() + (body if method != "HEAD" else b"")

    async def _answer(self, method: str, path: str, host: str) -> tuple[str, str, bytes]:
        plain = "text/plain; charset=utf-8"
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", plain, b"only GET"
        if not _is_address(host):
            return "403 Forbidden", plain, b"ask by an address of this machine, or as localhost"
        match path:
            case "/metrics":
                return "200 OK", CONTENT_TYPE, await self._metrics()
            case "/healthz":
                return "200 OK", plain, b"ok"
            case "/readyz":
                why = self._obstacles()
                return ("503 Service Unavailable", plain, "\n".join(why).encode()) if why else ("200 OK", plain, b"ok")
        return "404 Not Found", plain, b"/metrics, /healthz or /readyz"

    async def _metrics(self) -> bytes:
        """Return the text, made once a second at most: whoever may connect must not keep the worker busy with it."""
        async with self._rendering:
            if time.monotonic() >= self._stale_at:
                pods = await self._read_pods()
                own = [*self._probes.families(), _readiness(is_ready=not self._obstacles())]
                self._text = await asyncio.to_thread(_rendered, pods, own)
                self._stale_at = time.monotonic() + _FRESH_SECONDS
            return self._text

    async def _read_pods(self) -> list[Mapping[str, Any]]:
        """Return the node's pods, and count what has ended since the last call."""
        async with self._reading:
            runs = self._published.pods()
            told, self._untold[:] = self._untold.copy(), ()
            changed = [each for id_, each in runs.items() if (id_ not in self._pods or self._pods[id_][0] is not each)]
            read = await asyncio.to_thread(_read, [*told, *changed])
            for published in told:
                self._terminations.take(read[id(published)])
            self._pods = {
                id_: (each, read[id(each)] if id(each) in read else self._pods[id_][1]) for id_, each in runs.items()
            }
            for counts in (self._terminations, self._probes):
                counts.keep(each.uid for each in runs.values())
            return [pod for _, pod in self._pods.values()]


def _read(published: Iterable[Published]) -> dict[int, Mapping[str, Any]]:
    """Return the Pods of published states, by the identity of each state."""
    return {id_: each.answer("pod") for id_, each in {id(each): each for each in published}.items()}


def _rendered(pods: Sequence[Mapping[str, Any]], own: Sequence[Metric]) -> bytes:
    return generate_latest(_Series(REGISTRY, pods, own))


def _readiness(*, is_ready: bool) -> Metric:
    return GaugeMetricFamily("syncpod_node_ready", "1 if the node can run pods, as /readyz says.", is_ready)


class _Series(Collector):
    """All series of a node: what this process counts, what the endpoint adds, and the node's pods."""

    def __init__(self, counted: Collector, pods: Sequence[Mapping[str, Any]], own: Sequence[Metric]) -> None:
        """`own` are the families that the endpoint makes itself."""
        self._counted, self._pods, self._own = counted, pods, own

    def collect(self) -> Iterable[Metric]:
        for family in self._counted.collect():
            yield _as_the_kubelet_has_it(family)
        yield from self._own
        yield from pod_series(self._pods)


def _as_the_kubelet_has_it(family: Metric) -> Metric:
    if family.name not in _WITHOUT_TOTAL:
        return family
    renamed = Metric(family.name, family.documentation, "unknown")
    for sample in family.samples:
        renamed.add_sample(family.name, sample.labels, sample.value)
    return renamed


def _is_address(host: str) -> bool:
    """Say whether a Host header names an address or localhost, and no name that a page could have chosen."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name == "localhost"
    return True


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
