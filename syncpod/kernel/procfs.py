"""Reads /proc: the machine's memory, processors, tasks and boot, and single processes. Its formats are parsed here.

Supervisors import this, so it uses only the standard library.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_KIB: Final = 1024
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_NOT_BUSY: Final = ("idle", "iowait", "steal")
"""Times that do not count as busy. They include steal, the time that the hypervisor has taken away (kernel 6.14,
root_cgroup_cputime)."""
_KERNEL_LISTS_CHILDREN: Final = (PROC / "thread-self/children").exists()
"""The kernel was built with CONFIG_PROC_CHILDREN. Otherwise `children_of` reads the stat of every process."""
_TIMES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


# --- the machine ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """The machine's memory, in bytes."""

    total: int
    free: int
    inactive_file: int
    """Cached files that have not been read for a while, and can be reclaimed at once."""
    anonymous: int

    @property
    def used(self) -> int:
        """The memory that is not free, cache included."""
        return self.total - self.free

    @property
    def working_set(self) -> int:
        """Used memory, without the part that can be reclaimed at once (cAdvisor, setMemoryStats, for the root)."""
        return max(0, self.used - self.inactive_file)

    @property
    def available(self) -> int:
        """Free memory, and memory that can be reclaimed at once."""
        return self.free + self.inactive_file


def read_memory(proc: Path = PROC) -> Memory:
    """Read the machine's memory. An entry that a kernel does not list counts as 0. Raises OSError, ValueError."""
    lines = (line.partition(":") for line in (proc / "meminfo").read_text().splitlines())
    kilobytes = {name: rest.split()[0] for name, _, rest in lines if rest.endswith(" kB")}
    if "MemTotal" not in kilobytes:
        raise ValueError(f"{proc}/meminfo names no MemTotal")
    read = (int(kilobytes.get(name, 0)) * _KIB for name in ("MemTotal", "MemFree", "Inactive(file)", "AnonPages"))
    return Memory(*read)


@dataclass(frozen=True)
class Processors:
    """The time for which the machine's processors were busy since its boot."""

    busy_ns: int
    """Busy nanoseconds of all processors together: neither idle, nor waiting for disks, nor taken by the hypervisor."""
    count: int
    booted_at: int
    """When the machine was booted, in seconds since 1970; 0 = not known."""


def read_processors(proc: Path = PROC) -> Processors:
    """Read the processors' times. Raises OSError, ValueError, KeyError."""
    lines = _table((proc / "stat").read_text())
    ticks = dict(zip(_TIMES, map(int, lines["cpu"].split()), strict=False))
    busy = sum(number for name, number in ticks.items() if name not in _NOT_BUSY)
    count = sum(name.startswith("cpu") and name[3:].isdigit() for name in lines)
    return Processors(busy * 10**9 // _TICKS_PER_SECOND, count, int(lines.get("btime", 0)))


def _table(text: str) -> Mapping[str, str]:
    return dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)


def read_task_limit(proc: Path = PROC) -> int:
    """Return the kernel's maximum number of tasks: the lesser of pid_max and threads-max, or the only one that exists.

    Mirrors stats/pidlimit, v1.36, Stats. Raises OSError, which is FileNotFoundError if neither exists, and ValueError.
    """
    files = [proc / "sys/kernel" / name for name in ("pid_max", "threads-max")]
    found = [int(file.read_text()) for file in files if file.exists()]
    if not found:
        raise FileNotFoundError(f"{proc}/sys/kernel has no limit of tasks")
    return min(found)


def count_tasks(proc: Path = PROC) -> int:
    """Return the number of tasks of the machine. Raises OSError, ValueError, IndexError."""
    return int((proc / "loadavg").read_text().split()[3].partition("/")[2])


def boot_id() -> str:
    """Return the kernel's random id of this boot of the machine; "" if it has none."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


# --- one process ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProcessStat:
    """One process, from /proc/<pid>/stat. Times are in clock ticks."""

    pid: int
    parent: int
    session: int
    state: str
    own_ticks: int
    """User and system time of its threads."""
    waited_ticks: int
    """User and system time of its reaped children, including the children that those had reaped."""
    start_ticks: int
    """Its start, counted from the machine's boot."""
    resident_bytes: int


def parse_process_stat(text: bytes) -> ProcessStat:
    """Parse a line of /proc/<pid>/stat, whose second field, the name in parentheses, may contain anything."""
    pid, _, rest = text.partition(b" (")
    # The last parenthesis ends the name, since no later field has one. The next is field 3 of proc_pid_stat(5).
    fields = rest[rest.rindex(b")") + 2 :].split()
    return ProcessStat(
        pid=int(pid),
        state=fields[0].decode(),
        parent=int(fields[1]),
        session=int(fields[3]),
        own_ticks=int(fields[11]) + int(fields[12]),
        waited_ticks=int(fields[13]) + int(fields[14]),
        start_ticks=int(fields[19]),
        resident_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def process_stat(pid: int | str, proc: str = "/proc") -> ProcessStat | None:
    """Read a process's stat; None if it is gone. Raises OSError."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:  # noqa: PTH123  # a table of all processes opens thousands
            return parse_process_stat(file.read())
    except (FileNotFoundError, ProcessLookupError):
        return None


def children_of(pid: int) -> list[int]:
    """Return the children of all threads of a process; none if it is gone."""
    if not _KERNEL_LISTS_CHILDREN:
        stats = ((int(name), process_stat(name)) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208
        return [child for child, stat in stats if stat is not None and stat.parent == pid]
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                found += map(int, file.read().split())
    return found


@dataclass(frozen=True)
class ProcessIdentity:
    """Identifies one process: a pid may be reused, but not with the same start time in the same boot."""

    pid: int
    started: int
    """Clock ticks between the machine's boot and the process's start."""
    boot: str
    """Id of the machine's boot."""


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of a live process; None if there is none, or only a zombie."""
    stat = process_stat(pid)
    return None if stat is None or stat.state in ("Z", "X") else ProcessIdentity(pid, stat.start_ticks, boot_id())


def is_running(process: ProcessIdentity) -> bool:
    """Return whether exactly this process still runs."""
    return identify(process.pid) == process
