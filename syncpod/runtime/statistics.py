"""Resource use of containers and sandboxes, by their cgroups if they have any, else by /proc."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from protos.cri.v1 import api_pb2
from syncpod.runtime import listing, statuses
from syncpod.runtime.cgroups.files import Memory, Pressure, Pressures
from syncpod.runtime.cgroups.limits import CgroupUsage
from syncpod.runtime.cgroups.usage import CpuReading, DirectoryUsage, directory_usage, nano_cores
from syncpod.runtime.port import Usage
from syncpod.runtime.root.rootfs import written_to
from syncpod.runtime.state import Container, Runtime, Sandbox

_LAYER_AGE_NANOSECONDS = 10 * 10**9
"""Maximum age of a writable layer's measured size. containerd measures all layers at this interval."""


class Statistics:
    """Measures containers and sandboxes, and keeps the last CPU reading of each, to calculate rates."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._readings: dict[str, CpuReading] = {}
        self._layers: dict[str, tuple[int, DirectoryUsage | None]] = {}
        """By container id: the time and the result of the last measurement of its writable layer, which is slow."""

    async def container(self, container: Container) -> api_pb2.ContainerStats:
        """Measure one container."""
        return (await self.containers([container]))[0]

    async def containers(self, containers: Sequence[Container]) -> list[api_pb2.ContainerStats]:
        """Measure containers, in a thread, since this reads many small files."""
        self._forget_the_gone()
        return await asyncio.to_thread(lambda: [self._container(each) for each in containers])

    async def sandboxes(self, sandboxes: Sequence[Sandbox]) -> list[api_pb2.PodSandboxStats]:
        """Measure sandboxes as a whole, with their running containers."""
        self._forget_the_gone()
        running = [[c for c in tuple(each.containers.values()) if c.process is not None] for each in sandboxes]
        return await asyncio.to_thread(
            lambda: [self._sandbox(each, mine) for each, mine in zip(sandboxes, running, strict=True)]
        )

    def _forget_the_gone(self) -> None:
        there = {each.id for each in self._runtime.containers} | {each.id for each in self._runtime.sandboxes}
        for known in (self._readings, self._layers):
            for id in known.keys() - there:
                del known[id]

    def _container(self, container: Container) -> api_pb2.ContainerStats:
        listed = listing.read_container(container.entry)
        stats = api_pb2.ContainerStats(
            attributes=api_pb2.ContainerAttributes(
                id=listed.id, metadata=listed.metadata, labels=listed.labels, annotations=listed.annotations
            )
        )
        process = container.process
        usage = process.usage() if process is not None else None
        counted = self._runtime.cgroups.usage(container.cgroup) if container.cgroup else None
        now = counted.timestamp if counted else time.time_ns()
        cpu = counted.cpu_nanoseconds if counted and counted.cpu_nanoseconds is not None else None
        if cpu is None and usage is not None:
            cpu = usage.cpu_nanoseconds
        if cpu is not None:
            stats.cpu.CopyFrom(self._cpu(container.id, now, cpu, counted.cpu_pressure if counted else None))
        if counted is not None and counted.memory is not None:
            stats.memory.CopyFrom(_memory(now, counted.memory, counted.memory_pressure))
            if counted.memory.swap_usage is not None:
                stats.swap.CopyFrom(_swap(now, counted.memory))
        elif usage is not None:
            stats.memory.CopyFrom(_memory_of(now, usage))
        layer = self._writable_layer(container)
        if layer is not None:
            stats.writable_layer.CopyFrom(layer)
        if counted is not None and counted.io_pressure is not None:
            stats.io.CopyFrom(api_pb2.IoUsage(timestamp=now, psi=_psi(counted.io_pressure)))
        return stats

    def _writable_layer(self, container: Container) -> api_pb2.FilesystemUsage | None:
        """Return the size of a container's writable layer, at most ten seconds old.

        None if the container has no such layer, or one with too many files. The layer is on the file system of
        ImageFsInfo.
        """
        now = time.time_ns()
        timestamp, used = self._layers.get(container.id, (0, None))
        if not 0 <= now - timestamp < _LAYER_AGE_NANOSECONDS:
            used = directory_usage(*written_to(self._runtime.container_directory(container.id) / "process"))
            timestamp = now
            self._layers[container.id] = timestamp, used
        if used is None:
            return None
        return api_pb2.FilesystemUsage(
            timestamp=timestamp,
            fs_id=api_pb2.FilesystemIdentifier(mountpoint=str(self._runtime.directory)),
            used_bytes=api_pb2.UInt64Value(value=used.bytes),
            inodes_used=api_pb2.UInt64Value(value=used.inodes),
        )

    def _sandbox(self, sandbox: Sandbox, containers: Iterable[Container]) -> api_pb2.PodSandboxStats:
        listed = listing.read_sandbox(sandbox.entry)
        measured = [self._container(each) for each in containers]
        now = time.time_ns()
        linux = api_pb2.LinuxPodSandboxStats(containers=measured)
        counted = self._pod_cgroup(sandbox)
        cpu = counted.cpu_nanoseconds if counted is not None else None
        if cpu is None:
            cpu = sum(each.cpu.usage_core_nano_seconds.value for each in measured)
        linux.cpu.CopyFrom(self._cpu(sandbox.id, now, cpu, counted.cpu_pressure if counted else None))
        if counted is not None and counted.memory is not None:
            linux.memory.CopyFrom(_memory(now, counted.memory, counted.memory_pressure))
        else:
            working_set = sum(each.memory.working_set_bytes.value for each in measured)
            resident = sum(each.memory.rss_bytes.value for each in measured)
            linux.memory.CopyFrom(
                api_pb2.MemoryUsage(
                    timestamp=now,
                    working_set_bytes=api_pb2.UInt64Value(value=working_set),
                    usage_bytes=api_pb2.UInt64Value(value=working_set),
                    rss_bytes=api_pb2.UInt64Value(value=resident),
                )
            )
        if counted is not None:
            linux.process.CopyFrom(
                api_pb2.ProcessUsage(timestamp=now, process_count=api_pb2.UInt64Value(value=counted.processes))
            )
        return api_pb2.PodSandboxStats(
            attributes=api_pb2.PodSandboxAttributes(
                id=listed.id, metadata=listed.metadata, labels=listed.labels, annotations=listed.annotations
            ),
            linux=linux,
        )

    def _pod_cgroup(self, sandbox: Sandbox) -> CgroupUsage | None:
        """Return the use of the pod's own cgroup; None if it has none, or it is gone."""
        if not self._runtime.cgroups.hierarchies:
            return None
        try:
            _, config = statuses.sandbox_record(self._runtime, sandbox)
        except FileNotFoundError:
            return None
        parent = config.linux.cgroup_parent
        return self._runtime.cgroups.usage(parent) if parent else None

    def _cpu(self, id: str, now: int, nanoseconds: int, pressure: Pressures | None) -> api_pb2.CpuUsage:
        usage = api_pb2.CpuUsage(
            timestamp=now, usage_core_nano_seconds=api_pb2.UInt64Value(value=nanoseconds), psi=_psi(pressure)
        )
        reading = CpuReading(now, nanoseconds)
        earlier = self._readings.get(id)
        self._readings[id] = reading
        cores = nano_cores(earlier, reading) if earlier is not None else None
        if cores is not None:
            usage.usage_nano_cores.value = cores
        return usage


def _memory(now: int, memory: Memory, pressure: Pressures | None) -> api_pb2.MemoryUsage:
    usage = api_pb2.MemoryUsage(
        timestamp=now,
        working_set_bytes=api_pb2.UInt64Value(value=memory.working_set),
        usage_bytes=api_pb2.UInt64Value(value=memory.usage),
        rss_bytes=api_pb2.UInt64Value(value=memory.resident),
        page_faults=api_pb2.UInt64Value(value=memory.page_faults),
        major_page_faults=api_pb2.UInt64Value(value=memory.major_page_faults),
        psi=_psi(pressure),
    )
    if memory.available is not None:
        usage.available_bytes.value = memory.available
    return usage


def _memory_of(now: int, usage: Usage) -> api_pb2.MemoryUsage:
    """Return memory use by /proc. Each field has the resident memory, since the reclaimable part is not known."""
    resident = api_pb2.UInt64Value(value=usage.memory_bytes)
    return api_pb2.MemoryUsage(timestamp=now, working_set_bytes=resident, usage_bytes=resident, rss_bytes=resident)


def _swap(now: int, memory: Memory) -> api_pb2.SwapUsage:
    used = memory.swap_usage or 0
    usage = api_pb2.SwapUsage(timestamp=now, swap_usage_bytes=api_pb2.UInt64Value(value=used))
    if memory.swap_limit is not None:
        usage.swap_available_bytes.value = max(0, memory.swap_limit - used)
    return usage


def _psi(pressure: Pressures | None) -> api_pb2.PsiStats | None:
    if pressure is None:
        return None
    return api_pb2.PsiStats(Full=_psi_data(pressure.full), Some=_psi_data(pressure.some))


def _psi_data(pressure: Pressure) -> api_pb2.PsiData:
    return api_pb2.PsiData(
        Total=pressure.total_nanoseconds,
        Avg10=pressure.average_10_seconds,
        Avg60=pressure.average_60_seconds,
        Avg300=pressure.average_300_seconds,
    )
