"""Makes the answers for monitoring: metrics, pods, usage and probes of a node, in the kubelet's formats.

Used by the endpoint for metrics (:mod:`.endpoint`), and by the kubelet's port in a Kubernetes cluster. Each answer is
made at most once a second, and cached for all readers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from prometheus_client import REGISTRY, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from syncpod.agent.scraping.container_series import RunningContainer, container_series
from syncpod.agent.scraping.lifecycle_series import lifecycle_series
from syncpod.agent.scraping.node_usage import Disks, read_node_usage
from syncpod.agent.scraping.pod_series import pod_series
from syncpod.agent.scraping.pod_usage import UsageOfPods
from syncpod.agent.scraping.probe_counts import ProbeCounts
from syncpod.agent.scraping.resource_series import resource_series
from syncpod.agent.scraping.seen_pods import SeenPods
from syncpod.agent.scraping.summary import Measured, Running, cpu_and_memory, summary
from syncpod.agent.scraping.volume_usage import VolumesOfPods, VolumeUsage, claim_series, with_drivers
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, pod_log_directory

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the text that Prometheus reads."""
_COUNT_SECONDS: Final = 5.0
"""Seconds between two counts of containers' ends and pods' starts while there are no requests."""
_FRESH_SECONDS: Final = 1.0
_WITHOUT_TOTAL: Final = frozenset({"kubelet_evictions", "kubelet_pleg_discard_events"})
"""Counters whose names have no ``_total`` in the kubelet."""

MeasureDrivers = Callable[[], Awaitable[Mapping[str, Mapping[str, VolumeUsage | None]]]]
"""Returns the usage that storage drivers report of their volumes, by pod UID and volume; None = no answer."""


class NodeReadings:
    """The readings of one node. Belongs to the agent's event loop."""

    def __init__(
        self,
        *,
        node: NodeContext,
        pods: SeenPods,
        probes: ProbeCounts,
        usage: UsageOfPods,
        disks: Disks,
        listings: Callable[[], Iterable[ObservedPod]],
        obstacles: Callable[[], Sequence[str]],
    ) -> None:
        """Make the answers from these parts. `obstacles` returns why the node is not ready; empty = it is ready."""
        self.node, self.obstacles = node, obstacles
        self._pods, self._probes, self._usage, self._disks = pods, probes, usage, disks
        self._listings, self._volumes = listings, VolumesOfPods(node)
        self._claims = VolumesOfPods(node, of_claims=True)
        self._of_drivers: MeasureDrivers | None = None
        self._kept: dict[str, tuple[float, bytes]] = {}
        """By kind of answer: monotonic time until which the last answer is reused, and the answer."""
        self._making: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """One lock per kind of answer: a hanging runtime must not delay the metrics that show that it hangs."""

    @contextlib.contextmanager
    def asking_drivers(self, measure: MeasureDrivers) -> Iterator[None]:
        """Include the usage of storage drivers' volumes in the answers, until the context ends."""
        self._of_drivers = measure
        try:
            yield
        finally:
            self._of_drivers = None

    async def count(self) -> None:
        """Count ends and starts of pods even without requests, until cancelled."""
        while True:
            await asyncio.sleep(_COUNT_SECONDS)
            await self._pods.read()

    async def metrics(self) -> bytes:
        """Return the series of ``/metrics``."""
        return await self._fresh("metrics", self._metrics)

    async def resource_metrics(self) -> bytes:
        """Return the series of ``/metrics/resource``."""
        return await self._fresh("resources", self._resources)

    async def container_metrics(self) -> bytes:
        """Return the series of ``/metrics/cadvisor``."""
        return await self._fresh("containers", self._containers)

    async def probe_metrics(self) -> bytes:
        """Return the series of ``/metrics/probes``."""
        return await self._fresh("probes", self._probe_series)

    async def pods(self) -> bytes:
        """Return the pods as their workflows publish them, as a PodList."""
        return await self._fresh("pods", self._pod_list)

    async def running_pods(self) -> bytes:
        """Return the runtime's running pods, as a PodList of names, UIDs and containers (getRunningPods)."""
        return await self._fresh("running pods", self._running_pods)

    async def summary(self, *, only_cpu_and_memory: bool = False) -> bytes:
        """Return the Summary API's answer, or only the part of it that an autoscaler needs."""
        if only_cpu_and_memory:
            return await self._fresh("short summary", self._short_summary)
        return await self._fresh("summary", self._summary)

    async def _fresh(self, what: str, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the result of `make`, cached for a second, so that frequent requests do not keep the worker busy."""
        async with self._making[what]:
            until, kept = self._kept.get(what, (0.0, b""))
            if time.monotonic() >= until:
                kept = await make()
                self._kept[what] = time.monotonic() + _FRESH_SECONDS, kept
            return kept

    async def _metrics(self) -> bytes:
        pods = await self._pods.read()
        namespaces = {pod["metadata"].get("uid", ""): pod["metadata"].get("namespace", "") for pod in pods}
        claims = claim_series(await self._of_claims(), namespaces)
        own = [
            *self._probes.families(),
            _readiness(is_ready=not self.obstacles()),
            *_running(self._listings()),
            *claims,
        ]
        return await asyncio.to_thread(_rendered, pods, own)

    async def _resources(self) -> bytes:
        usage, node = await self._usage.measure(), await asyncio.to_thread(read_node_usage)
        starts = {each.id: at for _, each, at in self._running_containers()}
        return await asyncio.to_thread(lambda: generate_latest(_Families(resource_series(usage, node, starts))))

    async def _containers(self) -> bytes:
        usage, node = await self._usage.measure(), await asyncio.to_thread(read_node_usage)
        running = {each.id: RunningContainer(at, each.image) for _, each, at in self._running_containers()}
        return await asyncio.to_thread(
            lambda: generate_latest(_Families(container_series(usage, node, self.node.host, running)))
        )

    async def _probe_series(self) -> bytes:
        return generate_latest(_Families(list(self._probes.families())))

    async def _pod_list(self) -> bytes:
        items = [{key: pod[key] for key in ("metadata", "spec", "status")} for pod in await self._pods.read()]
        document = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        return await asyncio.to_thread(_as_json, document)

    async def _running_pods(self) -> bytes:
        items = [_running_pod(pod) for pod in self._listings() if any(each.ready for each in pod.sandboxes)]
        return _as_json({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})

    async def _summary(self) -> bytes:
        measured = Measured(
            at=datetime.now(UTC),
            node_name=self.node.name,
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
                each.id: Running(at, _logs(self.node, pod, each.name)) for pod, each, at in self._running_containers()
            },
            volumes=await self._volumes.measure(),
            claims=await self._of_claims(),
        )
        return await asyncio.to_thread(lambda: _as_json(summary(measured)))

    async def _of_claims(self) -> Mapping[str, tuple[VolumeUsage, ...]]:
        measured = await self._claims.measure()
        return with_drivers(measured, await self._of_drivers()) if self._of_drivers is not None else measured

    async def _short_summary(self) -> bytes:
        return _as_json(cpu_and_memory(json.loads(await self.summary())))

    def _running_containers(self) -> Iterable[tuple[ObservedPod, ObservedContainer, datetime]]:
        """Yield each running container with its pod and its start."""
        for pod in self._listings():
            for each in pod.containers:
                if each.state == "running" and each.started_at is not None:
                    yield pod, each, each.started_at


def _running_pod(pod: ObservedPod) -> dict[str, Any]:
    """Return a pod as the runtime lists it (container/runtime.go, v1.36, ToAPIPod)."""
    containers = [{"name": each.name, "image": each.image} for each in pod.containers if each.state == "running"]
    return {
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "spec": {"containers": containers},
        "status": {},
    }


def _logs(node: NodeContext, pod: ObservedPod, container: str) -> Any:
    try:
        return pod_log_directory(node, pod.namespace, pod.name, pod.uid) / container
    except UnsafeName:
        return None


def _as_json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


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
    """All series of ``/metrics``: those of this process, those of `NodeReadings`, and those of the node's pods."""

    def __init__(self, counted: Collector, pods: Sequence[Mapping[str, Any]], own: Sequence[Metric]) -> None:
        """Collect from these parts. `counted` has the process's series, and `own` those of `NodeReadings`."""
        self._counted, self._pods, self._own = counted, pods, own

    def collect(self) -> Iterable[Metric]:
        for family in self._counted.collect():
            yield _as_the_kubelet_has_it(family)
        yield from self._own
        yield from lifecycle_series(self._pods)
        yield from pod_series(self._pods)


def _as_the_kubelet_has_it(family: Metric) -> Metric:
    if family.name not in _WITHOUT_TOTAL:
        return family
    renamed = Metric(family.name, family.documentation, "unknown")
    for sample in family.samples:
        renamed.add_sample(family.name, sample.labels, sample.value)
    return renamed
