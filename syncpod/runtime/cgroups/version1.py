"""Cgroups, version 1: a hierarchy for each controller, or for a few together."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

from protos.cri.v1.api_pb2 import LinuxContainerResources
from syncpod.kernel import cgroupfs
from syncpod.runtime.cgroups import files
from syncpod.runtime.cgroups.files import CgroupRefused, Memory, Pressures

USED = ("cpu", "cpuacct", "cpuset", "freezer", "hugetlb", "memory", "pids", "name=systemd")
"""The hierarchies in which a container gets a directory. They include systemd's: stopping a service kills the processes
in the service's cgroup there, and containers must outlive the server."""

_NO_LIMIT = 1 << 62
"""The kernel shows an unlimited value as the largest number of whole pages, which is above this number."""
_UNLIMITED = -1


@dataclass(frozen=True)
class Version1:
    """One mounted hierarchy of version 1."""

    base: Path
    """The directory that stands for `/` in the paths of containers."""
    controllers: frozenset[str]
    version: int = 1

    def prepare(self, directory: Path) -> None:
        """Make a new cgroup usable: copy its parent's cpuset, because an empty one lets no process in."""
        if "cpuset" not in self.controllers:
            return
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not cgroupfs.read(directory / name):
                files.set_value("cpuset", directory / name, cgroupfs.read(directory.parent / name) or "")

    def open_to(self, directory: Path) -> None:
        """Do nothing: in version 1 the cgroups in `directory` always have the controllers."""

    def apply(self, directory: Path, resources: LinuxContainerResources) -> None:
        """Set the given limits, as far as this hierarchy's controllers enforce them. Raises :class:`CgroupRefused`."""
        if "cpu" in self.controllers:
            _apply_cpu(directory, resources)
        if "memory" in self.controllers:
            _apply_memory(directory, resources)
        if "cpuset" in self.controllers:
            files.apply_cpuset(directory, resources)
        if "hugetlb" in self.controllers:
            files.apply_huge_pages(directory, resources, "limit_in_bytes")

    def cpu_nanoseconds(self, directory: Path) -> int | None:
        """Return the CPU time used so far."""
        return files.read_number(directory / "cpuacct.usage") if "cpuacct" in self.controllers else None

    def memory(self, directory: Path) -> Memory | None:
        """Return the present usage of memory."""
        if "memory" not in self.controllers:
            return None
        usage = files.read_number(directory / "memory.usage_in_bytes")
        if usage is None:
            return None
        table = files.read_table(directory / "memory.stat")
        limit = _limit(directory / "memory.limit_in_bytes")
        with_swap = files.read_number(directory / "memory.memsw.usage_in_bytes")
        with_swap_limit = _limit(directory / "memory.memsw.limit_in_bytes")
        return Memory(
            usage=usage,
            working_set=max(0, usage - table.get("total_inactive_file", 0)),
            limit=limit,
            resident=table.get("total_rss", 0),
            page_faults=table.get("total_pgfault", 0),
            major_page_faults=table.get("total_pgmajfault", 0),
            swap_usage=None if with_swap is None else max(0, with_swap - usage),
            swap_limit=None if with_swap_limit is None or limit is None else max(0, with_swap_limit - limit),
        )

    def tasks(self, directory: Path) -> int | None:
        """Return the number of tasks."""
        return files.read_number(directory / "pids.current") if "pids" in self.controllers else None

    def pressures(self, directory: Path, of: str) -> Pressures | None:
        """Return None: version 1 has no pressure files."""
        return None

    def oom_kills(self, directory: Path) -> int | None:
        """Return the number of this cgroup's own processes that were killed for lack of memory."""
        if "memory" not in self.controllers:
            return None
        return files.read_table(directory / "memory.oom_control").get("oom_kill")


def _apply_cpu(directory: Path, resources: LinuxContainerResources) -> None:
    if resources.cpu_shares:
        files.set_value("cpu shares", directory / "cpu.shares", str(resources.cpu_shares))
    period, quota = (directory / "cpu.cfs_period_us", str(resources.cpu_period)), None
    if resources.cpu_quota:
        quota = (directory / "cpu.cfs_quota_us", str(max(resources.cpu_quota, _UNLIMITED)))
    wanted = [period] if resources.cpu_period else []
    if quota:
        wanted.append(quota)
        # Between the two writes, one value is new and one is old. If this pair exceeds the parent's limit, the kernel
        # refuses the first write; then the other order works (runc, fs/cpu.go).
        if not _try(wanted[0]):
            wanted.reverse()
    for file, value in wanted:
        files.set_value("cpu limit", file, value)


def _try(setting: tuple[Path, str]) -> bool:
    try:
        cgroupfs.write(*setting)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise CgroupRefused(f"cpu limit: {setting[0].name} cannot be set to {setting[1]}: {error.strerror}") from error
    return True


def _apply_memory(directory: Path, resources: LinuxContainerResources) -> None:
    """Set the memory limit, and the limit on memory plus swap, which must never be less than the memory limit."""
    memory, with_swap = resources.memory_limit_in_bytes, resources.memory_swap_limit_in_bytes
    with_swap_file = directory / "memory.memsw.limit_in_bytes"
    if memory < 0 and not with_swap:
        with_swap = _UNLIMITED
    elif 0 < (files.read_number(with_swap_file) or 0) < memory and not with_swap:
        with_swap = memory  # The new limit may exceed the limit on both: then no swap is allowed, as in containerd.
    settings = []
    if memory:
        settings.append((directory / "memory.limit_in_bytes", max(memory, _UNLIMITED)))
    # Without swap accounting the file is missing, and swap cannot be limited.
    if with_swap and with_swap_file.exists():
        settings.append((with_swap_file, max(with_swap, _UNLIMITED)))
        now = files.read_number(with_swap_file) or 0
        if with_swap < 0 or with_swap > now:
            settings.reverse()
    for file, value in settings:
        try:
            cgroupfs.write(file, str(value))
        except OSError as error:
            if error.errno == errno.EBUSY:
                usage = files.read_number(directory / "memory.usage_in_bytes")
                raise CgroupRefused(f"memory limit {value}: the container uses {usage} bytes now") from error
            raise CgroupRefused(f"memory limit: {file.name} cannot be set to {value}: {error.strerror}") from error


def _limit(file: Path) -> int | None:
    number = files.read_number(file)
    return None if number is None or number >= _NO_LIMIT else number
