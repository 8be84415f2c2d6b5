"""Measures the resource use of processes without a cgroup, by /proc, and the size of a container's writable layer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR

from syncpod.kernel.procfs import PROC, ProcessStat, process_stat
from syncpod.runtime.port import Usage

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_BLOCK_BYTES = 512
_NANOSECONDS = 1_000_000_000
_ZOMBIE_STATES = "ZX"
_READINGS = 3


class ProcessTable:
    """All processes of the machine, read one after the other. One table serves many containers.

    A process that starts or ends meanwhile may be missing, but each entry is consistent. A parent's pid is trusted only
    if the parent is older: otherwise the pid has been reused.
    """

    def __init__(self, processes: Iterable[ProcessStat]) -> None:
        self._by_pid = {each.pid: each for each in processes}
        self._children: dict[int, list[ProcessStat]] = {}
        for each in self._by_pid.values():
            parent = self._by_pid.get(each.parent)
            if parent is not None and parent.start_ticks <= each.start_ticks:
                self._children.setdefault(parent.pid, []).append(each)

    @classmethod
    def read(cls, proc: Path = PROC) -> ProcessTable:
        """Read /proc."""
        found = (process_stat(name, str(proc)) for name in os.listdir(proc) if name.isdecimal())  # noqa: PTH208
        return cls(stat for stat in found if stat is not None)

    def waited_ticks(self, pid: int) -> int | None:
        """Return the CPU time of the children that a process had waited for; None if the process was gone."""
        found = self._by_pid.get(pid)
        return found.waited_ticks if found is not None else None

    @staticmethod
    def waited_now(pid: int, proc: Path = PROC) -> int | None:
        """Return the present value of `waited_ticks`, read from /proc again; None if the process is gone."""
        found = process_stat(pid, str(proc))
        return found.waited_ticks if found is not None else None

    def usage(self, pid: int) -> Usage | None:
        """Return the usage of a process and all its descendants; None if the process is gone or a zombie.

        CPU time includes that of reaped children, so short-lived processes count. A shared page of resident memory
        counts once for each process.
        """
        process = self._by_pid.get(pid)
        if process is None or process.state in _ZOMBIE_STATES:
            return None
        return _sum(0, (process, *self._below(process)))

    def usage_below(self, pid: int) -> Usage | None:
        """Return the usage of a process's descendants, without its own; None if the process is gone or a zombie.

        This is for a supervisor, which becomes the parent of its container's orphans. The CPU time of reaped children
        still counts, so CPU time only grows. The supervisor's own memory and time do not count.
        """
        process = self._by_pid.get(pid)
        if process is None or process.state in _ZOMBIE_STATES:
            return None
        return _sum(process.waited_ticks, self._below(process))

    def _below(self, process: ProcessStat) -> Iterator[ProcessStat]:
        # Pids reused within one tick can form a cycle.
        seen = {process.pid}
        waiting = [process]
        while waiting:
            for child in self._children.get(waiting.pop().pid, ()):
                if child.pid not in seen:
                    seen.add(child.pid)
                    waiting.append(child)
                    yield child


@dataclass(frozen=True)
class DirectoryUsage:
    """The disk usage of directories: of the files in them, and of the directories themselves."""

    bytes: int
    """Allocated on disk: blocks, not lengths."""
    inodes: int


@dataclass(frozen=True)
class CpuReading:
    """Cumulative CPU time at a moment, both in nanoseconds."""

    timestamp: int
    cpu_nanoseconds: int


def usage_of(pid: int) -> Usage | None:
    """Return the present usage of a process and all its descendants; None if it is gone. Reads all of /proc once."""
    return ProcessTable.read().usage(pid)


def usage_below(pid: int) -> Usage | None:
    """Return the present usage of a supervisor's descendants; None if the supervisor is gone. Reads all of /proc.

    If a child is reaped during the read, its CPU time may be missing. /proc is then read again, up to three times in
    all.
    """
    for _ in range(_READINGS):
        table = ProcessTable.read()
        if table.waited_ticks(pid) == ProcessTable.waited_now(pid):
            break
    return table.usage_below(pid)


def nano_cores(earlier: CpuReading, later: CpuReading) -> int | None:
    """Return the nanoseconds of CPU per second between two readings: 10⁹ is one core.

    None if no time has passed, or if the later reading is lower because the container was restarted.
    """
    elapsed = later.timestamp - earlier.timestamp
    used = later.cpu_nanoseconds - earlier.cpu_nanoseconds
    return used * _NANOSECONDS // elapsed if elapsed > 0 and used >= 0 else None


def directory_usage(*directories: Path, at_most: int = 100_000) -> DirectoryUsage | None:
    """Measure directories of one file system together: a container's writable layers.

    None if all are gone, or if they have more than `at_most` entries, whose measurement takes about a second: no number
    is better than a wrong one. Each inode counts once, symlinks are not followed, and other file systems are not
    entered. An entry that vanishes meanwhile or cannot be read is left out.
    """
    inodes: set[int] = set()
    blocks = 0
    device = -1
    waiting: list[str] = []
    for directory in directories:
        try:
            stat = directory.lstat()
        except OSError:
            continue
        if not S_ISDIR(stat.st_mode):
            continue
        device = stat.st_dev
        inodes.add(stat.st_ino)
        blocks += stat.st_blocks
        waiting.append(os.fspath(directory))
    if not waiting:
        return None
    entries = 0
    while waiting:
        for entry in _entries(waiting.pop()):
            entries += 1
            if entries > at_most:
                return None
            try:
                stat = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.st_dev != device or stat.st_ino in inodes:
                continue
            inodes.add(stat.st_ino)
            blocks += stat.st_blocks
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    return DirectoryUsage(blocks * _BLOCK_BYTES, len(inodes))


def _sum(ticks: int, processes: Iterable[ProcessStat]) -> Usage:
    memory = count = 0
    for each in processes:
        ticks += each.own_ticks + each.waited_ticks
        memory += each.resident_bytes
        count += each.state not in _ZOMBIE_STATES
    return Usage(cpu_nanoseconds=ticks * _NANOSECONDS // _TICKS_PER_SECOND, memory_bytes=memory, processes=count)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []
