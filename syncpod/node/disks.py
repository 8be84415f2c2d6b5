"""Measures the file systems that paths are on.

A hanging disk blocks no other caller; each path has at most one call under way.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from syncpod.kernel.daemon_thread import in_daemon_thread


class DiskHangs(OSError):
    """A disk has not answered in time."""


@dataclass(frozen=True)
class Disk:
    """The file system that a path is on."""

    device: int
    capacity_bytes: int
    available_bytes: int
    """Bytes that are available to unprivileged users."""
    used_bytes: int
    inodes: int
    """The number of inodes; 0, like `inodes_free`, on a file system without a fixed number."""
    inodes_free: int


def read_disk(path: Path) -> Disk:
    """Measure the file system that a path is on. Blocks. Raises OSError."""
    found = os.statvfs(path)
    return Disk(
        device=path.stat().st_dev,
        capacity_bytes=found.f_blocks * found.f_frsize,
        available_bytes=found.f_bavail * found.f_frsize,
        used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
    )


class DiskReader:
    """Measures disks without blocking. Belongs to one event loop."""

    def __init__(self) -> None:
        """Begin with no measurement under way."""
        self._asking: dict[Path, asyncio.Future[Disk]] = {}

    async def measure(self, path: Path, *, seconds: float) -> Disk:
        """Measure the disk that a path is on. Raises DiskHangs if it takes longer than `seconds`, and OSError."""
        asking = self._asking.get(path)
        if asking is None:
            asking = self._asking[path] = in_daemon_thread(lambda: read_disk(path), name="statvfs")
        await asyncio.wait({asking}, timeout=seconds)
        if not asking.done():
            raise DiskHangs("it does not answer")
        self._asking.pop(path, None)
        return asking.result()
