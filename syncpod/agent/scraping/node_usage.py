"""The resource usage of the node as a whole, from procfs and its disks."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from syncpod.cri.errors import CriError
from syncpod.cri.port import CpuUsage, CriRuntime, FilesystemUsage, InterfaceUsage, MemoryUsage
from syncpod.node.daemon_thread import in_daemon_thread

_DISK_SECONDS: Final = 2.0
"""How long a disk may take. One that hangs is not asked again until it has answered."""
_KIB: Final = 1024
_NOT_BUSY: Final = ("idle", "iowait", "steal")
_TIMES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")

_T = TypeVar("_T")


@dataclass(frozen=True)
class Disk:
    """The file system that a path is on."""

    capacity_bytes: int
    available_bytes: int
    """Bytes that are available to unprivileged users."""
    used_bytes: int
    inodes: int
    """0 on a file system without a fixed number of inodes, as are the following two."""
    inodes_free: int


@dataclass(frozen=True)
class NodeUsage:
    """One measurement. None = not known."""

    booted_at: datetime | None = None
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None
    interfaces: tuple[InterfaceUsage, ...] = ()
    """The interfaces, with that of the default route first."""
    max_pids: int | None = None
    tasks: int | None = None


def read_node_usage(proc: Path = Path("/proc")) -> NodeUsage:
    """Read procfs. A file that is missing or cannot be read is left out."""
    stat = _or_none(lambda: _read_stat(proc / "stat"))
    pids = _or_none(lambda: min(int((proc / "sys/kernel" / name).read_text()) for name in ("pid_max", "threads-max")))
    tasks = _or_none(lambda: int((proc / "loadavg").read_text().split()[3].partition("/")[2]))
    return NodeUsage(
        booted_at=stat[0] if stat is not None else None,
        cpu=stat[1] if stat is not None else None,
        memory=_or_none(lambda: _read_memory(proc)),
        interfaces=_or_none(lambda: _read_interfaces(proc / "net")) or (),
        max_pids=pids,
        tasks=tasks,
    )


def _or_none(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except (OSError, ValueError, KeyError, IndexError):
        return None


def _read_stat(path: Path) -> tuple[datetime, CpuUsage]:
    lines = dict(line.split(maxsplit=1) for line in path.read_text().splitlines() if " " in line)
    ticks = dict(zip(_TIMES, map(int, lines["cpu"].split()), strict=False))
    busy = sum(number for name, number in ticks.items() if name not in _NOT_BUSY)
    used = busy * 10**9 // os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(int(lines["btime"]), UTC), CpuUsage(time.time_ns(), used, None)


def _read_memory(proc: Path) -> MemoryUsage:
    """Read the machine's memory. Its working set is all memory that is neither free nor inactive page cache."""
    text = (proc / "meminfo").read_text()
    said = {name: int(rest.split()[0]) * _KIB for name, _, rest in (line.partition(":") for line in text.splitlines())}
    faults = dict(line.split() for line in (proc / "vmstat").read_text().splitlines())
    used = said["MemTotal"] - said["MemFree"]
    return MemoryUsage(
        measured_at_ns=time.time_ns(),
        usage_bytes=used,
        working_set_bytes=used - said["Inactive(file)"],
        available_bytes=said["MemFree"] + said["Inactive(file)"],
        rss_bytes=said["AnonPages"],
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
        """Use the disk of the state directory, where the pods' volumes are, as the node's disk."""
        self._cri, self._state_dir = cri, state_dir
        self._asking: dict[Path, asyncio.Future[Disk]] = {}

    async def of_node(self) -> Disk | None:
        """Measure the node's disk; None if it does not answer."""
        return await self._measure(self._state_dir)

    async def of_images(self) -> tuple[FilesystemUsage, Disk | None] | None:
        """Return the usage of images, and their disk; None if the runtime does not say."""
        try:
            filesystems = (await self._cri.image_fs_info()).image_filesystems
        except CriError:
            return None
        return (filesystems[0], await self._measure(Path(filesystems[0].mountpoint))) if filesystems else None

    async def _measure(self, path: Path) -> Disk | None:
        asking = self._asking.get(path)
        if asking is None:
            asking = self._asking[path] = in_daemon_thread(lambda: read_disk(path), name="statvfs")
        await asyncio.wait({asking}, timeout=_DISK_SECONDS)
        if not asking.done():
            return None
        self._asking.pop(path, None)
        return None if asking.exception() is not None else asking.result()


def read_disk(path: Path) -> Disk:
    """Measure the file system that a path is on. Blocks. Raises OSError."""
    found = os.statvfs(path)
    return Disk(
        capacity_bytes=found.f_blocks * found.f_frsize,
        available_bytes=found.f_bavail * found.f_frsize,
        used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
    )
