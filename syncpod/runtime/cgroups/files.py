"""The common part of both versions of cgroups: reading and writing their files."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

from protos.cri.v1.api_pb2 import LinuxContainerResources
from syncpod.kernel import cgroupfs
from syncpod.kernel.cgroupfs import read, write


class CgroupRefused(Exception):
    """A cgroup cannot be made, changed or removed as requested; the text is one sentence."""


@dataclass(frozen=True)
class Pressure:
    """The time that tasks waited for a resource: one of the two lines of a pressure file."""

    total_nanoseconds: int
    average_10_seconds: float
    """Per cent of the last 10 seconds."""
    average_60_seconds: float
    average_300_seconds: float


@dataclass(frozen=True)
class Pressures:
    """Pressure on one resource.

    `some` counts while at least one task waits, and `full` while all runnable tasks wait.
    """

    some: Pressure
    full: Pressure


@dataclass(frozen=True)
class Memory:
    """Memory of a cgroup and of all below it, in bytes."""

    usage: int
    """All memory, cache included."""
    working_set: int
    """Usage without inactive file pages, the number that evictions use."""
    limit: int | None
    resident: int
    """Anonymous memory: stacks, heaps, private maps."""
    page_faults: int
    major_page_faults: int
    swap_usage: int | None
    """Used swap; None if swap is not accounted for."""
    swap_limit: int | None
    """Maximum swap; None = no limit, or swap is not accounted for."""

    @property
    def available(self) -> int | None:
        """The bytes that are left up to the limit; None without a limit."""
        return None if self.limit is None else max(0, self.limit - self.working_set)


def read_number(file: Path) -> int | None:
    """Return the number in a file; None if the file is missing, or contains `max`."""
    text = read(file)
    return None if text is None or text == "max" else int(text)


def read_table(file: Path) -> dict[str, int]:
    """Return a file of lines `name number`; empty if it is missing."""
    return {name: int(number) for name, number in (line.split(maxsplit=1) for line in (read(file) or "").splitlines())}


def set_value(what: str, file: Path, value: str) -> None:
    """Write a value; `what` names it in the error. Raises :class:`CgroupRefused`."""
    try:
        write(file, value)
    except OSError as error:
        raise CgroupRefused(f"{what}: {file.name} cannot be set to {value}: {_reason(error)}") from error


def apply_cpuset(directory: Path, resources: LinuxContainerResources) -> None:
    """Set the given CPUs and memory nodes; the files are the same in both versions. Raises CgroupRefused."""
    for name, value in (("cpus", resources.cpuset_cpus), ("mems", resources.cpuset_mems)):
        if value:
            set_value(f"cpuset {name}", directory / f"cpuset.{name}", value)


def apply_huge_pages(directory: Path, resources: LinuxContainerResources, suffix: str) -> None:
    """Set the limits on huge pages, in bytes; the names of their files end in `suffix`. Raises CgroupRefused.

    Reservations are limited too, if the kernel can do so (5.7).
    """
    for limit in resources.hugepage_limits:
        what, name = f"hugepages-{limit.page_size} limit", f"hugetlb.{limit.page_size}"
        set_value(what, directory / f"{name}.{suffix}", str(limit.limit))
        reserved = directory / f"{name}.rsvd.{suffix}"
        if reserved.exists():
            set_value(what, reserved, str(limit.limit))


def remove_tree(directory: Path) -> None:
    """Remove a cgroup and all below it; a missing one is success. Blocks up to 0.7 s for each.

    Raises :class:`CgroupRefused` naming the processes that are still in it.
    """
    try:
        cgroupfs.remove_tree(directory)
    except OSError as error:
        raise CgroupRefused(f"{error.filename}: cannot be removed: {_reason(error)}") from error


def pressures(file: Path) -> Pressures | None:
    """Return the content of a pressure file; None if the kernel has none."""
    try:
        text = read(file)
    except OSError as error:
        # The file stays if pressure accounting is disabled, for the machine or for a cgroup.
        if error.errno == errno.EOPNOTSUPP:
            return None
        raise
    return parse_pressures(text) if text else None


def parse_pressures(text: str) -> Pressures:
    """Parse `some avg10=… avg60=… avg300=… total=…` and the same for `full`; the total is in microseconds."""
    lines = {}
    for line in text.splitlines():
        kind, *fields = line.split()
        values = dict(field.split("=", 1) for field in fields)
        lines[kind] = Pressure(
            int(values["total"]) * 1000, float(values["avg10"]), float(values["avg60"]), float(values["avg300"])
        )
    nothing = Pressure(0, 0.0, 0.0, 0.0)
    return Pressures(some=lines.get("some", nothing), full=lines.get("full", nothing))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
