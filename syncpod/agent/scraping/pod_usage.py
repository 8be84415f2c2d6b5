"""Reads the CPU, memory and network usage of the node's pods, with one call to the runtime for all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from syncpod.cri.errors import CriError
from syncpod.cri.port import CpuUsage, CriRuntime, MemoryUsage, SandboxStats
from syncpod.translation.names import NODE_LABEL

log = logging.getLogger(__name__)

_FRESH_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 5.0
"""Seconds that the runtime may take. containerd 1.6 calls each shim, and a hanging shim delays the answer."""


@dataclass(frozen=True)
class RuntimeUsage:
    """One answer of the runtime."""

    pods: tuple[SandboxStats, ...] = ()
    is_known: bool = True
    """Whether the runtime answered."""


class UsageOfPods:
    """Calls the runtime at most once a second, and caches its answer for all readers. Belongs to one event loop."""

    def __init__(self, cri: CriRuntime, node: str) -> None:
        """Measure the sandboxes of the node with this name."""
        self._cri, self._labels = cri, {NODE_LABEL: node}
        self._usage, self._stale_at = RuntimeUsage(), 0.0
        self._asking = asyncio.Lock()
        self._is_failing = False

    async def measure(self) -> RuntimeUsage:
        """Return the usage of pods with a ready sandbox, at most a second old."""
        async with self._asking:
            if time.monotonic() >= self._stale_at:
                self._usage = await self._ask()
                self._stale_at = time.monotonic() + _FRESH_SECONDS
            return self._usage

    async def _ask(self) -> RuntimeUsage:
        try:
            pods = await self._cri.list_sandbox_stats(labels=self._labels, timeout_seconds=PATIENCE_SECONDS)
        except CriError as error:
            if not self._is_failing:
                log.warning("the runtime does not report the usage of pods: %s", error)
            self._is_failing = True
            return RuntimeUsage(is_known=False)
        self._is_failing = False
        return RuntimeUsage(tuple(map(with_sums, pods)))


def with_sums(pod: SandboxStats) -> SandboxStats:
    """Return a pod with the sums of its containers' CPU and memory if the runtime reports neither, as CRI-O does.

    Mirrors server/stats/cri_stats_provider.go, v1.36, addPodCPUMemoryStats. Pure.
    """
    if pod.cpu is not None or pod.memory is not None:
        return pod
    cpu = [each.cpu for each in pod.containers if each.cpu is not None]
    memory = [each.memory for each in pod.containers if each.memory is not None]
    return replace(pod, cpu=_cpu_sum(cpu) if cpu else None, memory=_memory_sum(memory) if memory else None)


def _cpu_sum(each_of: Sequence[CpuUsage]) -> CpuUsage:
    rates = [each.nano_cores for each in each_of if each.nano_cores is not None]
    return CpuUsage(
        max(each.measured_at_ns for each in each_of),
        sum(each.used_ns for each in each_of),
        sum(rates) if len(rates) == len(each_of) else None,
    )


def _memory_sum(each_of: Sequence[MemoryUsage]) -> MemoryUsage:
    """Return the sums of memory. If one of the summands is None, the sum is None."""

    def total(name: str) -> int | None:
        numbers = [getattr(each, name) for each in each_of]
        return None if None in numbers else sum(numbers)

    names = (field.name for field in fields(MemoryUsage) if field.name != "measured_at_ns")
    return MemoryUsage(max(each.measured_at_ns for each in each_of), **{name: total(name) for name in names})
