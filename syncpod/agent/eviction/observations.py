"""Measures how much memory, disk space and process ids the node has left.

Mirrors server/stats, v1.36, as eviction/helpers.go, makeSignalObservations, reads it. Available memory is free memory
plus the inactive page cache, which can be reclaimed at once. The kubelet calculates the same on cgroup v2; on v1 it
also counts the kernel's slabs as available. The node's disk is the one with its state directory, which holds the pods'
volumes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.lifecycle.eviction import Observation, Observations, Signal
from syncpod.node.daemon_thread import in_daemon_thread
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

DISK_SECONDS: Final = 5.0
"""How long a disk may take to report its usage; one that hangs is not asked again until it answers."""
_KIB: Final = 1024


@dataclass(frozen=True)
class Measured:
    """One measurement of the node."""

    signals: Observations
    dedicated_images: bool
    """Images and writable layers are on a different disk than the node's state."""


@dataclass(frozen=True)
class _Disk:
    device: int
    space: Observation
    inodes: Observation | None
    """None on a file system without a fixed number of inodes."""


class NodeObservations:
    """Measures one node. All methods belong to one event loop."""

    def __init__(self, node: NodeContext, cri: CriRuntime, wanted: Collection[Signal], *, proc: Path = Path("/proc")):
        """Measure only the signals in `wanted`; `proc` is where procfs is mounted."""
        self._state_dir = node.state_dir
        self._cri = cri
        self._wanted = frozenset(wanted)
        self._proc = proc
        self._asking: dict[Path, asyncio.Future[_Disk]] = {}
        self._complaints: dict[str, str] = {}

    async def measure(self) -> Measured:
        """Measure now. A signal that cannot be measured is left out; a new reason for that is logged."""
        signals: dict[Signal, Observation] = {}
        if "memory.available" in self._wanted:
            self._read("available memory", signals, "memory.available", lambda: read_memory(self._proc / "meminfo"))
        if "pid.available" in self._wanted:
            self._read("the number of processes", signals, "pid.available", lambda: read_pids(self._proc))
        node = await self._disk("the node's disk", self._state_dir) if self._wants("nodefs", "imagefs") else None
        images = None
        if self._wants("imagefs") and (place := await self._image_place()) is not None:
            images = await self._disk("the images' disk", place)
        if node is not None:
            _note(signals, "nodefs.available", "nodefs.inodesFree", node)
        if images is not None:
            _note(signals, "imagefs.available", "imagefs.inodesFree", images)
        kept: Observations = {signal: seen for signal, seen in signals.items() if signal in self._wanted}
        dedicated = node is not None and images is not None and node.device != images.device
        return Measured(kept, dedicated)

    def _wants(self, *disks: str) -> bool:
        return any(signal.partition(".")[0] in disks for signal in self._wanted)

    def _read(
        self, what: str, signals: dict[Signal, Observation], signal: Signal, read: Callable[[], Observation]
    ) -> None:
        try:
            signals[signal] = read()
        except (OSError, ValueError, KeyError, IndexError) as error:
            self._complain(what, str(error))
        else:
            self._complaints.pop(what, None)

    async def _image_place(self) -> Path | None:
        try:
            filesystems = (await self._cri.image_fs_info()).image_filesystems
        except CriError as error:
            self._complain("the images' disk", str(error))
            return None
        if not filesystems:
            self._complain("the images' disk", "the runtime reports no image filesystem")
            return None
        return Path(filesystems[0].mountpoint)

    async def _disk(self, what: str, path: Path) -> _Disk | None:
        asking = self._asking.get(path)
        if asking is None:
            asking = self._asking[path] = in_daemon_thread(lambda: read_disk(path), name="statvfs")
        await asyncio.wait({asking}, timeout=DISK_SECONDS)
        if not asking.done():
            self._complain(what, "it does not answer")
            return None
        del self._asking[path]
        try:
            disk = asking.result()
        except OSError as error:
            self._complain(what, str(error))
            return None
        self._complaints.pop(what, None)
        return disk

    def _complain(self, what: str, why: str) -> None:
        if self._complaints.get(what) != why:
            log.warning("%s cannot be measured, so no pod is evicted for it: %s", what, why)
        self._complaints[what] = why


def read_memory(meminfo: Path) -> Observation:
    """Return available and total memory in bytes. Raises OSError, KeyError, ValueError."""
    said = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    total, free, inactive = (int(said[name].split()[0]) * _KIB for name in ("MemTotal", "MemFree", "Inactive(file)"))
    return Observation(available=free + inactive, capacity=total)


def read_pids(proc: Path) -> Observation:
    """Return how many more tasks the kernel can have, and how many in total. Raises OSError, ValueError, IndexError.

    Mirrors server/stats and cm, v1.36, rlimit: the smaller of pid_max and threads-max, minus the existing tasks.
    """
    most = min(int((proc / "sys/kernel" / name).read_text()) for name in ("pid_max", "threads-max"))
    tasks = int((proc / "loadavg").read_text().split()[3].partition("/")[2])
    return Observation(available=most - tasks, capacity=most)


def read_disk(path: Path) -> _Disk:
    """Return the usage of the disk that a path is on. Blocks. Raises OSError."""
    found = os.statvfs(path)
    inodes = Observation(found.f_ffree, found.f_files) if found.f_files else None
    return _Disk(
        device=path.stat().st_dev,
        space=Observation(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize),
        inodes=inodes,
    )


def _note(signals: dict[Signal, Observation], space: Signal, inodes: Signal, disk: _Disk) -> None:
    signals[space] = disk.space
    if disk.inodes is not None:
        signals[inodes] = disk.inodes
