"""Serves a node's metrics, health, pods and resource usage over HTTP, at the kubelet's paths.

Of a request only the path matters, and for the pods themselves a token. No request changes the node. Metrics show the
names of pods and their usage to everyone who can connect, so the address should be on the loopback. ``/pods`` and
``/stats/summary`` show more: they require the token of the state directory, and are served only on a loopback address,
since the token is sent unencrypted.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from prometheus_client import REGISTRY, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from syncpod.agent.scraping.http_server import Answer, HttpServer, Request
from syncpod.agent.scraping.node_usage import Disks, read_node_usage
from syncpod.agent.scraping.pod_series import pod_series
from syncpod.agent.scraping.pod_usage import UsageOfPods
from syncpod.agent.scraping.probe_counts import ProbeCounts
from syncpod.agent.scraping.reader_token import FILE_NAME, ReaderToken
from syncpod.agent.scraping.resource_series import resource_series
from syncpod.agent.scraping.seen_pods import SeenPods
from syncpod.agent.scraping.summary import Measured, Running, summary
from syncpod.agent.scraping.volume_usage import VolumesOfPods
from syncpod.kernel.callers import PeerOf
from syncpod.kernel.peers import find_peer
from syncpod.lifecycle.observed import ObservedPod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, pod_log_directory

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_JSON: Final = "application/json"
_COUNT_SECONDS: Final = 5.0
"""How often the ends of containers are counted while nobody scrapes."""
_FRESH_SECONDS: Final = 1.0
_WITHOUT_TOTAL: Final = frozenset({"kubelet_evictions", "kubelet_pleg_discard_events"})
"""Counters whose names have no ``_total`` in the kubelet."""
_NO_TOKEN: Final = (
    f"show the token in the file {FILE_NAME} of the node's state directory, which its owner can read: "
    "Authorization: Bearer TOKEN\n"
).encode()


class NodeEndpoint:
    """The endpoint of one node. Belongs to the agent's event loop."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        node: NodeContext,
        pods: SeenPods,
        probes: ProbeCounts,
        usage: UsageOfPods,
        disks: Disks,
        listings: Callable[[], Iterable[ObservedPod]],
        obstacles: Callable[[], Sequence[str]],
        peer_of: PeerOf = find_peer,
    ) -> None:
        """Serve at `port`, or at any free port if it is 0. `obstacles` says why the node is not ready.

        Creates the token if there is none. Blocks. Raises OSError.
        """
        self.server = HttpServer(host, port, self._answer, peer_of=peer_of)
        self._node, self._pods, self._probes, self._usage, self._disks = node, pods, probes, usage, disks
        self._listings, self._obstacles, self._volumes = listings, obstacles, VolumesOfPods(node)
        self._token = ReaderToken(node.state_dir)
        self._is_local = ipaddress.ip_address(host).is_loopback
        self._kept: dict[str, tuple[float, bytes]] = {}
        """By path: the last answer, and until when it may be reused."""
        self._making: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """One lock per path: a hanging runtime must only hold up answers that need it, not the metrics that show it."""

    async def run(self) -> None:
        """Serve until cancelled."""
        await self.server.run()

    async def count(self) -> None:
        """Count what happens to pods even while nobody scrapes, until cancelled."""
        while True:
            await asyncio.sleep(_COUNT_SECONDS)
            await self._pods.read()

    async def _answer(self, request: Request) -> Answer:
        match request.path:
            case "/metrics":
                return Answer("200 OK", await self._fresh(request.path, self._metrics), CONTENT_TYPE)
            case "/metrics/resource":
                return Answer("200 OK", await self._fresh(request.path, self._resources), CONTENT_TYPE)
            case "/healthz":
                return Answer("200 OK", b"ok")
            case "/readyz":
                why = self._obstacles()
                return Answer("503 Service Unavailable", "\n".join(why).encode()) if why else Answer("200 OK", b"ok")
            case "/pods" | "/pods/":
                return await self._to_its_owner(request, self._pod_list)
            case "/stats/summary" | "/stats/summary/":
                return await self._to_its_owner(request, self._summary)
        known = b"/metrics, /metrics/resource, /healthz, /readyz, /pods or /stats/summary"
        return Answer("404 Not Found", known)

    async def _to_its_owner(self, request: Request, make: Callable[[], Awaitable[bytes]]) -> Answer:
        if not self._is_local:
            return Answer("403 Forbidden", b"served only on a loopback address, since the token is sent unencrypted\n")
        if not self._token.is_shown(request.authorization):
            return Answer("401 Unauthorized", _NO_TOKEN, headers={"WWW-Authenticate": 'Bearer realm="syncpod"'})
        return Answer("200 OK", await self._fresh(request.path, make), _JSON)

    async def _fresh(self, path: str, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the result of `make`, which runs at most once a second, so that no reader keeps the worker busy."""
        async with self._making[path]:
            until, kept = self._kept.get(path, (0.0, b""))
            if time.monotonic() >= until:
                kept = await make()
                self._kept[path] = time.monotonic() + _FRESH_SECONDS, kept
            return kept

    # --- what is told -------------------------------------------------------------------------------------------------

    async def _metrics(self) -> bytes:
        pods = await self._pods.read()
        own = [*self._probes.families(), _readiness(is_ready=not self._obstacles()), *_running(self._listings())]
        return await asyncio.to_thread(_rendered, pods, own)

    async def _resources(self) -> bytes:
        usage, node = await self._usage.measure(), await asyncio.to_thread(read_node_usage)
        starts = {id_: at for _, id_, at in self._running_containers()}
        return await asyncio.to_thread(lambda: generate_latest(_Families(resource_series(usage, node, starts))))

    async def _pod_list(self) -> bytes:
        items = [{key: pod[key] for key in ("metadata", "spec", "status")} for pod in await self._pods.read()]
        told = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        return await asyncio.to_thread(_as_json, told)

    async def _summary(self) -> bytes:
        measured = Measured(
            at=datetime.now(UTC),
            node_name=self._node.name,
            node=await asyncio.to_thread(read_node_usage),
            usage=await self._usage.measure(),
            node_disk=await self._disks.of_node(),
            images=await self._disks.of_images(),
            started={
                sandbox.id: sandbox.created_at
                for pod in self._listings()
                for sandbox in pod.sandboxes
                if sandbox.ready and sandbox.created_at is not None
            },
            running={
                id_: Running(at, _logs(self._node, pod, name)) for (pod, name), id_, at in self._running_containers()
            },
            volumes=await self._volumes.measure(),
        )
        return await asyncio.to_thread(lambda: _as_json(summary(measured)))

    def _running_containers(self) -> Iterable[tuple[tuple[ObservedPod, str], str, datetime]]:
        """Yield pod and name, id and start of each running container."""
        for pod in self._listings():
            for each in pod.containers:
                if each.state == "running" and each.started_at is not None:
                    yield (pod, each.name), each.id, each.started_at


def _logs(node: NodeContext, pod: ObservedPod, container: str) -> Any:
    try:
        return pod_log_directory(node, pod.namespace, pod.name, pod.uid) / container
    except UnsafeName:
        return None


def _as_json(told: Mapping[str, Any]) -> bytes:
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _rendered(pods: Sequence[Mapping[str, Any]], own: Sequence[Metric]) -> bytes:
    return generate_latest(_Series(REGISTRY, pods, own))


def _readiness(*, is_ready: bool) -> Metric:
    return GaugeMetricFamily("syncpod_node_ready", "1 if the node can run pods, as /readyz says.", is_ready)


def _running(listings: Iterable[ObservedPod]) -> Iterable[Metric]:
    """Yield the number of ready sandboxes, and of containers in each state (pleg/generic.go, v1.36)."""
    pods, containers = 0, Counter[str]({"created": 0, "exited": 0, "running": 0, "unknown": 0})
    for pod in listings:
        pods += any(sandbox.ready for sandbox in pod.sandboxes)
        containers.update(container.state for container in pod.containers)
    yield GaugeMetricFamily("kubelet_running_pods", "Pods that have a ready sandbox.", pods)
    family = GaugeMetricFamily("kubelet_running_containers", "Containers, by state.", labels=("container_state",))
    for state, number in sorted(containers.items()):
        family.add_metric((state,), number)
    yield family


class _Families(Collector):
    """A collector of given families."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class _Series(Collector):
    """All series of ``/metrics``: those of this process, those that the endpoint adds, and those of the node's pods."""

    def __init__(self, counted: Collector, pods: Sequence[Mapping[str, Any]], own: Sequence[Metric]) -> None:
        """Collect from these parts. `own` are the families that the endpoint itself makes."""
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
