"""Cgroups, version 2: one hierarchy, whose controllers are enabled level by level."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from pathlib import Path

from protos.cri.v1.api_pb2 import LinuxContainerResources
from syncpod.kernel import cgroupfs
from syncpod.runtime.cgroups import files
from syncpod.runtime.cgroups.files import CgroupRefused, Memory, Pressures

USED = ("cpu", "cpuset", "hugetlb", "io", "memory", "pids")
"""The controllers that are enabled for containers."""

_DEFAULT_PERIOD = 100_000
_MIN_SHARES, _MAX_SHARES = 2, 262_144
_MIN_WEIGHT, _MAX_WEIGHT = 1, 10_000


@dataclass(frozen=True)
class Version2:
    """The mounted hierarchy of version 2, or a delegated part of it."""

    base: Path
    """The directory that stands for `/` in the paths of containers."""
    controllers: frozenset[str]
    """The controllers that are enabled for the cgroups in `base`."""
    version: int = 2

    def prepare(self, directory: Path) -> None:
        """Do nothing: a new cgroup is usable."""

    def open_to(self, directory: Path) -> None:
        """Enable the controllers for the cgroups in `directory`.

        A controller that cannot be enabled has no files there.
        """
        pass_down(directory, self.controllers)

    def apply(self, directory: Path, resources: LinuxContainerResources) -> None:
        """Set the given limits, as far as the controllers enforce them. Raises :class:`CgroupRefused`."""
        if "cpu" in self.controllers:
            _apply_cpu(directory, resources)
        if "memory" in self.controllers:
            _apply_memory(directory, resources)
        if "cpuset" in self.controllers:
            files.apply_cpuset(directory, resources)
        if "hugetlb" in self.controllers:
            files.apply_huge_pages(directory, resources, "max")
        for name, value in sorted(resources.unified.items()):
            if name.partition(".")[0] in self.controllers:
                _set_unless_idle(name, directory / name, value)

    def cpu_nanoseconds(self, directory: Path) -> int | None:
        """Return the CPU time used so far, which needs no controller."""
        used = files.read_table(directory / "cpu.stat").get("usage_usec")
        return None if used is None else used * 1000

    def memory(self, directory: Path) -> Memory | None:
        """Return the present usage of memory."""
        usage = files.read_number(directory / "memory.current")
        if usage is None:
            return None
        table = files.read_table(directory / "memory.stat")
        return Memory(
            usage=usage,
            working_set=max(0, usage - table.get("inactive_file", 0)),
            limit=files.read_number(directory / "memory.max"),
            resident=table.get("anon", 0),
            page_faults=table.get("pgfault", 0),
            major_page_faults=table.get("pgmajfault", 0),
            swap_usage=files.read_number(directory / "memory.swap.current"),
            swap_limit=files.read_number(directory / "memory.swap.max"),
        )

    def tasks(self, directory: Path) -> int | None:
        """Return the number of tasks."""
        return files.read_number(directory / "pids.current")

    def pressures(self, directory: Path, of: str) -> Pressures | None:
        """Return the pressure on `cpu`, `memory` or `io`, which needs no controller."""
        return files.pressures(directory / f"{of}.pressure")

    def oom_kills(self, directory: Path) -> int | None:
        """Return the number of processes in the cgroup or below it that were killed for lack of memory."""
        return files.read_table(directory / "memory.events").get("oom_kill")


def pass_down(directory: Path, controllers: frozenset[str]) -> frozenset[str]:
    """Enable these controllers for the cgroups in `directory`, and return those that are enabled.

    Each controller is written separately, so that the failure of one does not affect the others. A controller cannot be
    enabled if `directory` has processes, or if its parent has not enabled that controller.
    """
    file = directory / "cgroup.subtree_control"
    for controller in sorted(controllers - set((cgroupfs.read(file) or "").split())):
        with contextlib.suppress(OSError):
            cgroupfs.write(file, f"+{controller}")
    return controllers & set((cgroupfs.read(file) or "").split())


def weight_of(shares: int) -> int:
    """Return the cpu.weight (1 … 10000) for CPU shares (2 … 262144). 1024 shares become 100; both are the defaults.

    This is runc's curve since 2025, which passes through the minimum, the default and the maximum: 10 to the power of
    (l² + 125 l) / 612 − 7/34 with l = log₂ shares, rounded up. The linear conversion before gave 1024 shares a weight
    of only 39.
    """
    if shares <= _MIN_SHARES:
        return _MIN_WEIGHT
    if shares >= _MAX_SHARES:
        return _MAX_WEIGHT
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def cpu_max(resources: LinuxContainerResources, now: str) -> str | None:
    """Return the new text of cpu.max, quota and period in microseconds; None = no change. `now` is the present text.

    A quota of 0 means unchanged; a negative one removes the limit.
    """
    if not resources.cpu_quota and not resources.cpu_period:
        return None
    quota, _, period = (now or f"max {_DEFAULT_PERIOD}").partition(" ")
    if resources.cpu_quota:
        quota = str(resources.cpu_quota) if resources.cpu_quota > 0 else "max"
    return f"{quota} {resources.cpu_period or period}"


def swap_max(resources: LinuxContainerResources) -> str | None:
    """Return the new value of memory.swap.max; None = no change.

    CRI's limit is on memory plus swap, version 2's on swap alone. If memory becomes unlimited and swap is not
    mentioned, swap becomes unlimited too. Raises :class:`CgroupRefused` if the limit is less than the memory limit.
    """
    memory, together = resources.memory_limit_in_bytes, resources.memory_swap_limit_in_bytes
    if together < 0 or (memory < 0 and not together):
        return "max"
    if not together:
        return None
    if memory <= 0:
        raise CgroupRefused(f"memory swap limit {together}: needs a memory limit beside it")
    if together < memory:
        raise CgroupRefused(f"memory swap limit {together}: must not be below the memory limit {memory}")
    return str(together - memory)


def _apply_cpu(directory: Path, resources: LinuxContainerResources) -> None:
    if resources.cpu_shares:
        files.set_value("cpu shares", directory / "cpu.weight", str(weight_of(resources.cpu_shares)))
    limit = cpu_max(resources, cgroupfs.read(directory / "cpu.max") or "")
    if limit is not None:
        files.set_value("cpu limit", directory / "cpu.max", limit)


def _apply_memory(directory: Path, resources: LinuxContainerResources) -> None:
    swap = swap_max(resources)
    if swap is not None:
        _set_unless_idle("memory swap limit", directory / "memory.swap.max", swap)
    if resources.memory_limit_in_bytes:
        value = str(resources.memory_limit_in_bytes) if resources.memory_limit_in_bytes > 0 else "max"
        _spare(directory, resources.memory_limit_in_bytes)
        files.set_value("memory limit", directory / "memory.max", value)


def _spare(directory: Path, limit: int) -> None:
    """Refuse a memory limit below the present use, as version 1 does: in version 2 the kernel would kill processes.

    File pages, which the kernel can reclaim at once, do not count. Raises :class:`CgroupRefused`.
    """
    table = files.read_table(directory / "memory.stat")
    used = (files.read_number(directory / "memory.current") or 0) - table.get("file", 0) + table.get("shmem", 0)
    if 0 < limit < used:
        raise CgroupRefused(f"memory limit {limit}: the container uses {used} bytes now")


def _set_unless_idle(what: str, file: Path, value: str) -> None:
    """Set a value. Without swap accounting, ignore a swap limit that is 0 or unlimited."""
    if file.name == "memory.swap.max" and value in ("0", "max") and not file.exists():
        return
    files.set_value(what, file, value)
