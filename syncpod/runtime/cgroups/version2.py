"""Cgroups, version 2: one hierarchy, whose controllers are passed down from level to level."""

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
"""The controllers that are passed down to containers."""

_DEFAULT_PERIOD = 100_000
_MIN_SHARES, _MAX_SHARES = 2, 262_144
_MIN_WEIGHT, _MAX_WEIGHT = 1, 10_000


@dataclass(frozen=True)
class Version2:
    """The mounted hierarchy of version 2, or a delegated part of it."""

    base: Path
    """The directory that stands for `/` in the paths of containers."""
    controllers: frozenset[str]
    """Those that were passed down to what lies in `base`."""
    version: int = 2

    def prepare(self, directory: Path) -> None:
        """Make a new cgroup usable: it is."""

    def open_to(self, directory: Path) -> None:
        """Let the cgroups in `directory` have the controllers; of one that cannot be had the files are missing."""
        pass_down(directory, self.controllers)

    def apply(self, directory: Path, resources: LinuxContainerResources) -> None:
        """Set what is given and belongs to the controllers. Raises :class:`CgroupRefused`."""
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
        """Return what is used now."""
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
        """Return how many tasks there are."""
        return files.read_number(directory / "pids.current")

    def pressures(self, directory: Path, of: str) -> Pressures | None:
        """Return how long work waited for `cpu`, `memory` or `io`, which needs no controller."""
        return files.pressures(directory / f"{of}.pressure")

    def oom_kills(self, directory: Path) -> int | None:
        """Return how often a process in the cgroup or below it was killed because memory was used up."""
        return files.read_table(directory / "memory.events").get("oom_kill")


def pass_down(directory: Path, controllers: frozenset[str]) -> frozenset[str]:
    """Give the cgroups in `directory` these controllers, and return those that they have.

    Each is written on its own: one that cannot be had, since processes are in `directory` itself or it was not passed
    down this far, costs none of the others.
    """
    file = directory / "cgroup.subtree_control"
    for controller in sorted(controllers - set((cgroupfs.read(file) or "").split())):
        with contextlib.suppress(OSError):
            cgroupfs.write(file, f"+{controller}")
    return controllers & set((cgroupfs.read(file) or "").split())


def weight_of(shares: int) -> int:
    """Return the cpu.weight (1 … 10000) of CPU shares (2 … 262144): least, most and default, 1024 to 100, agree.

    The curve that runc draws since 2025, through those three points: 10 to the power of (l² + 125 l) / 612 − 7/34 with
    l = log₂ shares, rounded up. The straight line that stood before gave 1024 shares a weight of only 39.
    """
    if shares <= _MIN_SHARES:
        return _MIN_WEIGHT
    if shares >= _MAX_SHARES:
        return _MAX_WEIGHT
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def cpu_max(resources: LinuxContainerResources, now: str) -> str | None:
    """Return what to write to cpu.max, whose text is `now`: quota and period in microseconds. None: nothing is given.

    A quota of 0 is not given, and stays as it is; a negative one takes the limit away.
    """
    if not resources.cpu_quota and not resources.cpu_period:
        return None
    quota, _, period = (now or f"max {_DEFAULT_PERIOD}").partition(" ")
    if resources.cpu_quota:
        quota = str(resources.cpu_quota) if resources.cpu_quota > 0 else "max"
    return f"{quota} {resources.cpu_period or period}"


def swap_max(resources: LinuxContainerResources) -> str | None:
    """Return what to write to memory.swap.max; None: nothing is given.

    CRI's limit is on memory and swap together, version 2's on swap alone. Where memory is made unlimited and nothing is
    said of swap, so is swap. Raises :class:`CgroupRefused` for what cannot be subtracted.
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
    """Refuse a limit below what is in use: the kernel would kill for it, where version 1 refuses it itself.

    What it can take back at once, the pages of files, is not counted. Raises :class:`CgroupRefused`.
    """
    table = files.read_table(directory / "memory.stat")
    used = (files.read_number(directory / "memory.current") or 0) - table.get("file", 0) + table.get("shmem", 0)
    if 0 < limit < used:
        raise CgroupRefused(f"memory limit {limit}: the container uses {used} bytes now")


def _set_unless_idle(what: str, file: Path, value: str) -> None:
    """Set a value; where the kernel accounts for no swap, to allow none or any amount of it is no request."""
    if file.name == "memory.swap.max" and value in ("0", "max") and not file.exists():
        return
    files.set_value(what, file, value)
