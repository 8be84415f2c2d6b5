"""Ending what is left of a container whose supervisor was killed, and nothing else.

A process is only ever signalled through a pidfd that was opened before it was confirmed to be the one meant: ids are
used again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from syncpod.runtime import cgroup_kill
from syncpod.runtime.records import Identity, Stat, stat_of

_ROUNDS = 200


def end_remains(main: Identity, cgroup_procs: tuple[str, ...]) -> None:
    """Kill the main process, then its session and cgroups until nobody is left in them, at most some seconds long.

    The main process was to die with the supervisor. What it started stays in its session unless it has left that, and
    a session's number is not given to another process while one of its members lives. Blocks: for a thread.
    """
    cgroups = tuple(Path(path).parent for path in cgroup_procs)
    for _ in range(_ROUNDS):
        leader = stat_of(main.pid)
        if leader is not None and leader.ticks != main.ticks:
            members = []  # The number is another process's by now, so nobody of the session is left.
        else:
            members = [pid for pid in _all() if _is_member(main, stat_of(pid))]
        remaining = sum(_kill(pid, lambda pid: _is_member(main, stat_of(pid))) for pid in members)
        with contextlib.suppress(OSError):  # A cgroup that cannot be read is asked again.
            remaining += cgroup_kill.kill(cgroups)
        if not remaining:
            return
        time.sleep(0.01)


def _is_member(main: Identity, stat: Stat | None) -> bool:
    return stat is not None and stat.state not in "ZX" and stat.session == main.pid and stat.ticks >= main.ticks


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208


def _kill(pid: int, confirm: Callable[[int], bool]) -> bool:
    """Kill the process if it is still the one meant; True if so."""
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if confirm(pid):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
        finally:
            os.close(descriptor)
    return False
