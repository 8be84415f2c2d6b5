"""Reads the resource usage of the whole node from procfs and its disks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from syncpod.cri.errors import CriError
from syncpod.cri.port import CpuUsage, CriRuntime, FilesystemUsage, InterfaceUsage, MemoryUsage
from syncpod.kernel.procfs import PROC, count_tasks, read_memory, read_processors, read_task_limit
from syncpod.node.disks import Disk, DiskReader

_DISK_SECONDS: Final = 2.0
"""Seconds that a disk may take. A hanging disk is not read again until it has answered."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class NodeUsage:
    """One measurement. None = unknown."""

    booted_at: datetime | None = None
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None
    interfaces: tuple[InterfaceUsage, ...] = ()
    """The interfaces; the interface with the default route comes first."""
    max_pids: int | None = None
    tasks: int | None = None


def read_node_usage(proc: Path = PROC) -> NodeUsage:
    """Read procfs. A file that is missing or cannot be read is left out."""
    processors = _or_none(lambda: read_processors(proc))
    booted_at = processors.booted_at if processors is not None else 0
    return NodeUsage(
        booted_at=datetime.fromtimestamp(booted_at, UTC) if booted_at else None,
        cpu=CpuUsage(time.time_ns(), processors.busy_ns, None) if processors is not None else None,
        memory=_or_none(lambda: _read_memory(proc)),
        interfaces=_or_none(lambda: _read_interfaces(proc / "net")) or (),
        max_pids=_or_none(lambda: read_task_limit(proc)),
        tasks=_or_none(lambda: count_tasks(proc)),
    )


def _or_none(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except (OSError, ValueError, KeyError, IndexError):
        return None


def _read_memory(proc: Path) -> MemoryUsage:
    memory = read_memory(proc)
    faults = dict(line.split() for line in (proc / "vmstat").read_text().splitlines())
    return MemoryUsage(
        measured_at_ns=time.time_ns(),
        usage_bytes=memory.used,
        working_set_bytes=memory.working_set,
        available_bytes=memory.available,
        rss_bytes=memory.anonymous,
        page_faults=int(faults["pgfault"]),
        major_page_faults=int(faults["pgmajfault"]),
    )


def _read_interfaces(net: Path) -> tuple[InterfaceUsage, ...]:
    routes = [line.split() for line in (net / "route").read_text().splitlines()[1:]]
    default = next((fields[0] for fields in routes if fields[1] == "00000000"), "")
    found = []
    for line in (net / "dev").read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        counts = list(map(int, numbers.split()))
        found.append(InterfaceUsage(name.strip(), counts[0], counts[2], counts[8], counts[10]))
    return tuple(sorted((each for each in found if each.name != "lo"), key=lambda each: each.name != default))


class Disks:
    """Measures the node's disk and the disk of its images. Belongs to one event loop."""

    def __init__(self, cri: CriRuntime, state_dir: Path) -> None:
        """Measure the disk of the state directory as the node's disk: it has the pods' volumes."""
        self._cri, self._state_dir = cri, state_dir
        self._disks = DiskReader()

    async def of_node(self) -> Disk | None:
        """Measure the disk of the state directory; None if the disk does not answer in time."""
        return await self._measure(self._state_dir)

    async def of_images(self) -> tuple[FilesystemUsage, Disk | None] | None:
        """Return the usage of images, and their disk (None if it does not answer); None if the runtime reports none."""
        try:
            filesystems = (await self._cri.image_fs_info()).image_filesystems
        except CriError:
            return None
        return (filesystems[0], await self._measure(Path(filesystems[0].mountpoint))) if filesystems else None

    async def _measure(self, path: Path) -> Disk | None:
        try:
            return await self._disks.measure(path, seconds=_DISK_SECONDS)
        except OSError:
            return None
