"""Measures the CPU and memory usage of containers and of the whole machine, by two measurements.

The runtime gives only totals here. Its own rates cover unknown periods (in containerd 1.6: since any client's last
request), so the rows of a table would not be comparable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncpod.cri.errors import CriError, DeadlineExceeded, NotFound
from syncpod.cri.port import ContainerStats, CriRuntime
from syncpod.kernel.procfs import read_memory, read_processors
from syncpod.translation.names import CONTAINER_NAME_LABEL, NODE_LABEL, POD_NAME_LABEL, POD_NAMESPACE_LABEL

WINDOW_SECONDS: Final = 1.0
"""The time between the two measurements: long for the clock ticks of /proc, and short for the user."""
_LONGEST_WINDOW_SECONDS: Final = 12.0
"""The longest time between the two measurements: containerd 2 measures only every few seconds, and repeats its last
result meanwhile."""
_PAUSE_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 3.0
"""The timeout for the statistics of one sandbox: a shim that hangs must not delay the others."""
_AT_ONCE: Final = 16


@dataclass(frozen=True)
class TopUsage:
    """CPU and memory usage."""

    cpu_nano_cores: int
    """Billionths of a core."""
    memory_bytes: int
    """The working set: memory that cannot be reclaimed without harm."""


@dataclass(frozen=True)
class TopContainer:
    """The usage of one running container."""

    namespace: str
    pod: str
    container: str
    labels: Mapping[str, str]
    """The pod's labels."""
    usage: TopUsage


@dataclass(frozen=True)
class TopMeasured:
    """The usage of the node's containers."""

    containers: tuple[TopContainer, ...]
    unmeasured: tuple[tuple[str, str, str], ...]
    """Namespace and name of each pod that the runtime did not report, and why."""


@dataclass(frozen=True)
class _Running:
    """A running container and its pod."""

    id: str
    sandbox_id: str
    namespace: str
    pod: str
    container: str
    labels: Mapping[str, str]


async def measure(runtime: CriRuntime, node: str) -> TopMeasured:
    """Measure the running containers of a node's pods; takes a second or more. Raises CriError."""
    running = await _running(runtime, node)
    sandboxes = {each.sandbox_id for each in running}
    first, _ = await _look(runtime, sandboxes)
    begun = time.monotonic()
    await asyncio.sleep(WINDOW_SECONDS if first else 0)
    last, reasons = await _look(runtime, sandboxes)
    while stale := _stale(first, last):
        if time.monotonic() - begun > _LONGEST_WINDOW_SECONDS:
            break
        await asyncio.sleep(_PAUSE_SECONDS)
        again, _ = await _look(runtime, {each.sandbox_id for each in running if each.id in stale})
        last |= again
    usages = {
        each.id: usage for each in running if (usage := between(first.get(each.id), last.get(each.id))) is not None
    }
    return _measured(running, usages, reasons)


class Meter:
    """Measures the running containers of a node's pods repeatedly, with one round of requests each time."""

    def __init__(self, runtime: CriRuntime, node: str) -> None:
        """Measure nothing yet."""
        self._runtime, self._node = runtime, node
        self._before: dict[str, ContainerStats] = {}
        self._known: dict[str, TopUsage] = {}

    async def next(self) -> TopMeasured:
        """Return each container's usage since the last call, or the last known usage if the runtime has no new one.

        A container that has been measured only once is left out. Raises CriError.
        """
        running = await _running(self._runtime, self._node)
        last, reasons = await _look(self._runtime, {each.sandbox_id for each in running})
        for id_, stats in last.items():
            usage = between(self._before.get(id_), stats)
            if usage is not None:
                self._known[id_] = usage
            if usage is not None or id_ not in self._before:
                self._before[id_] = stats
        ids = {each.id for each in running}
        self._before = {id_: stats for id_, stats in self._before.items() if id_ in ids}
        self._known = {id_: usage for id_, usage in self._known.items() if id_ in ids}
        return _measured(running, self._known, reasons)


def _measured(running: Iterable[_Running], usages: Mapping[str, TopUsage], reasons: Mapping[str, str]) -> TopMeasured:
    found = [
        TopContainer(each.namespace, each.pod, each.container, each.labels, usages[each.id])
        for each in running
        if each.id in usages
    ]
    silent = {(each.namespace, each.pod, reasons[each.sandbox_id]) for each in running if each.sandbox_id in reasons}
    return TopMeasured(tuple(found), tuple(sorted(silent)))


def between(first: ContainerStats | None, last: ContainerStats | None) -> TopUsage | None:
    """Return a container's usage between two measurements; None if one of them is missing.

    The result is None, too, if both were made at the same moment: kubectl leaves out these containers as well.
    """
    if first is None or last is None or first.cpu is None or last.cpu is None or last.working_set_bytes is None:
        return None
    span = last.cpu.measured_at_ns - first.cpu.measured_at_ns
    if span <= 0:
        return None
    used = max(0, last.cpu.used_ns - first.cpu.used_ns)
    return TopUsage(used * 1_000_000_000 // span, last.working_set_bytes)


def total(usages: Iterable[TopUsage]) -> TopUsage:
    """Return the sum of these usages."""
    listed = tuple(usages)
    return TopUsage(sum(each.cpu_nano_cores for each in listed), sum(each.memory_bytes for each in listed))


async def _running(runtime: CriRuntime, node: str) -> list[_Running]:
    labels = {NODE_LABEL: node}
    sandboxes = {each.id: each for each in await runtime.list_pod_sandboxes(labels=labels)}
    return [
        _Running(
            id=each.id,
            sandbox_id=each.sandbox_id,
            namespace=each.labels.get(POD_NAMESPACE_LABEL, ""),
            pod=each.labels.get(POD_NAME_LABEL, ""),
            container=each.labels.get(CONTAINER_NAME_LABEL, each.name),
            labels=sandboxes[each.sandbox_id].labels if each.sandbox_id in sandboxes else {},
        )
        for each in await runtime.list_containers(labels=labels)
        if each.state == "running"
    ]


async def _look(runtime: CriRuntime, sandboxes: Iterable[str]) -> tuple[dict[str, ContainerStats], dict[str, str]]:
    """Return the statistics by container, and the reason for each sandbox without statistics."""
    some = asyncio.Semaphore(_AT_ONCE)
    reasons: dict[str, str] = {}

    async def ask(sandbox: str) -> Sequence[ContainerStats]:
        async with some:
            try:
                return await runtime.list_container_stats(sandbox_id=sandbox, timeout_seconds=_PATIENCE_SECONDS)
            except NotFound:
                return ()
            except DeadlineExceeded:
                reasons[sandbox] = f"the runtime does not report it within {_PATIENCE_SECONDS:g} s"
            except CriError as error:
                reasons[sandbox] = error.message or str(error.code)
            return ()

    found = await asyncio.gather(*map(ask, sandboxes))
    return {each.id: each for one in found for each in one}, reasons


def _stale(first: Mapping[str, ContainerStats], last: Mapping[str, ContainerStats]) -> set[str]:
    """Return the containers whose second measurement only repeats the first."""
    return {
        id
        for id, stats in last.items()
        if stats.cpu is not None
        and (before := first.get(id)) is not None
        and before.cpu is not None
        and before.cpu.measured_at_ns == stats.cpu.measured_at_ns
    }


@dataclass(frozen=True)
class TopNode:
    """The usage of the whole machine, and its capacity."""

    cpu_nano_cores: int
    """Billionths of a core."""
    cpus: int
    memory_bytes: int
    """The working set: memory that is neither free nor only cache."""
    total_memory_bytes: int


def measure_node(root: Path = Path("/")) -> TopNode:
    """Measure this machine; blocks for a second. Raises OSError, ValueError, KeyError.

    The kubelet takes the root cgroup's figures from cAdvisor; the equal figures here are from /proc.
    """
    proc = root / "proc"
    first, begun = read_processors(proc), time.monotonic()
    time.sleep(WINDOW_SECONDS)
    last, span = read_processors(proc), time.monotonic() - begun
    memory = read_memory(proc)
    nano_cores = int((last.busy_ns - first.busy_ns) / span)
    return TopNode(max(0, nano_cores), last.count, memory.working_set, memory.total)
