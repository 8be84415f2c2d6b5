"""The descendants of a process, according to the kernel."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from syncpod.kernel.procfs import process_stat

_KERNEL_LISTS_CHILDREN = Path("/proc/thread-self/children").exists()
"""Needs CONFIG_PROC_CHILDREN; without it all of /proc is read."""


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


def session_of(pid: int) -> int:
    """Return the session of a process; 0, which is never one, if it is gone."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0
