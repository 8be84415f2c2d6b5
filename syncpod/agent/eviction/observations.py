"""Measures how much memory, disk space and process ids the node has left.

Mirrors server/stats, v1.36, as eviction/helpers.go, makeSignalObservations, reads it. Available memory is free memory
plus the inactive page cache, which can be reclaimed at once. The kubelet calculates the same on cgroup v2; on v1 it
also counts the kernel's slabs as available. The node's disk is the disk of its state directory, which holds the pods'
volumes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.kernel.os_errors import where_and_why
from syncpod.kernel.procfs import PROC, count_tasks, read_memory, read_task_limit
from syncpod.lifecycle.eviction import Observation, Observations, Signal
from syncpod.node.disks import Disk, DiskReader
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

DISK_SECONDS: Final = 5.0
"""Seconds that a disk may take to report its usage. A hanging disk is not read again until it has answered."""


@dataclass(frozen=True)
class NodeMeasurement:
    """One measurement of the node."""

    signals: Observations
    dedicated_images: bool
    """Whether images and writable layers are on a different disk than the node's state."""


class NodeObservations:
    """Measures one node. All methods belong to one event loop."""

    def __init__(self, node: NodeContext, cri: CriRuntime, wanted: Collection[Signal], *, proc: Path = PROC):
        """Measure only the signals in `wanted`; `proc` is where procfs is mounted."""
        self._state_dir = node.state_dir
        self._cri = cri
        self._wanted = frozenset(wanted)
        self._proc = proc
        self._disks = DiskReader()
        self._complaints: dict[str, str] = {}

    async def measure(self) -> NodeMeasurement:
        """Measure now. A signal that cannot be measured is left out; the reason is logged when it changes."""
        signals: dict[Signal, Observation] = {}
        if "memory.available" in self._wanted:
            self._read("available memory", signals, "memory.available", lambda: available_memory(self._proc))
        if "pid.available" in self._wanted:
            self._read("the number of processes", signals, "pid.available", lambda: available_pids(self._proc))
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
        return NodeMeasurement(kept, dedicated)

    def _wants(self, *disks: str) -> bool:
        return any(signal.partition(".")[0] in disks for signal in self._wanted)

    def _read(
        self, what: str, signals: dict[Signal, Observation], signal: Signal, read: Callable[[], Observation]
    ) -> None:
        try:
            signals[signal] = read()
        except (OSError, ValueError, KeyError, IndexError) as error:
            self._complain(what, where_and_why(error))
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

    async def _disk(self, what: str, path: Path) -> Disk | None:
        try:
            disk = await self._disks.measure(path, seconds=DISK_SECONDS)
        except OSError as error:
            self._complain(what, where_and_why(error))
            return None
        self._complaints.pop(what, None)
        return disk

    def _complain(self, what: str, why: str) -> None:
        if self._complaints.get(what) != why:
            log.warning("%s cannot be measured, so no pod is evicted for it: %s", what, why)
        self._complaints[what] = why


def available_memory(proc: Path) -> Observation:
    """Return available and total memory in bytes. Raises OSError, ValueError."""
    memory = read_memory(proc)
    return Observation(available=memory.available, capacity=memory.total)


def available_pids(proc: Path) -> Observation:
    """Return how many more tasks the kernel can have, and how many in total. Raises OSError, ValueError, IndexError.

    Mirrors server/stats and cm, v1.36, rlimit.
    """
    most = read_task_limit(proc)
    return Observation(available=most - count_tasks(proc), capacity=most)


def _note(signals: dict[Signal, Observation], space: Signal, inodes: Signal, disk: Disk) -> None:
    signals[space] = Observation(disk.available_bytes, disk.capacity_bytes)
    if disk.inodes:  # 0 if the file system has no fixed number of inodes
        signals[inodes] = Observation(disk.inodes_free, disk.inodes)
