"""Kills the remaining processes of a container whose supervisor was killed, and no others.

Pids are reused, so a process is signalled only through a pidfd that was opened before its identity was confirmed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from syncpod.kernel.procfs import ProcessStat, process_stat
from syncpod.runtime.cgroups import kill
from syncpod.runtime.processes.records import Identity, Started
from syncpod.runtime.root.layers import ROOT

_ROUNDS = 200


def end_remains(directory: Path, started: Started, cgroup_procs: tuple[str, ...]) -> None:
    """Kill the main process and all processes in its session, mount namespace and cgroups, until none is left.

    Takes a few seconds at most. The main process should have died with the supervisor. Its children are in its session,
    unless they have left it. A session's number is not reused while a member lives. A process that left the session is
    still in the container's mount namespace, if it had one. A dying process leaves the namespace before its last files
    are closed and its ports are free. So this waits until the process is a zombie or gone. Blocks: call it in a thread.
    """
    main = started.main
    killed: set[Identity] = set()
    cgroups = tuple(Path(path).parent for path in cgroup_procs)
    for _ in range(_ROUNDS):
        leader = process_stat(main.pid)
        if leader is not None and leader.start_ticks != main.ticks:
            members = []  # The number now belongs to another process, so the session is empty.
        else:
            members = [pid for pid in _all() if _is_member(main, process_stat(pid))]
        remaining = sum(_kill(pid, lambda pid: _is_member(main, process_stat(pid))) for pid in members)
        if started.mount_namespace:
            remaining += sum(map(_is_dying, killed))
            inside = _kill_namespace(started.mount_namespace, directory / ROOT)
            remaining += len(inside)
            killed |= inside
        with contextlib.suppress(OSError):  # A cgroup that cannot be read is tried again.
            remaining += kill.kill(cgroups)
        if not remaining:
            return
        time.sleep(0.01)


def _is_member(main: Identity, stat: ProcessStat | None) -> bool:
    return stat is not None and stat.state not in "ZX" and stat.session == main.pid and stat.start_ticks >= main.ticks


def _is_dying(killed: Identity) -> bool:
    stat = process_stat(killed.pid)
    return stat is not None and stat.state not in "ZX" and stat.start_ticks == killed.ticks


def _kill_namespace(number: int, root: Path) -> set[Identity]:
    """Kill all processes in a container's mount namespace, and return them.

    The inode may now belong to another namespace. The namespace is the container's if a process in it has the
    container's directory as its root, since no other process ever has. That process is held by a pidfd and killed last,
    so that it keeps the namespace alive.
    """
    inside = [pid for pid in _all() if _namespace_of(pid) == number]
    witness = next((pid for pid in inside if _has_root(pid, root)), None)
    if witness is None:
        return set()
    killed = set()
    for pid in [*(each for each in inside if each != witness), witness]:
        stat = process_stat(pid)
        if stat is not None and _kill(
            pid,
            lambda pid: _namespace_of(pid) == number and _namespace_of(witness) == number and _has_root(witness, root),
        ):
            killed.add(Identity(pid, stat.start_ticks))
    return killed


def _namespace_of(pid: int) -> int:
    """Return the mount namespace of a process; 0 if it is gone, a zombie, or closed to us."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino  # noqa: PTH116
    except OSError:
        return 0


def _has_root(pid: int, root: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samefile(f"/proc/{pid}/root", root)  # noqa: PTH121
    return False


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208


def _kill(pid: int, confirm: Callable[[int], bool]) -> bool:
    """Kill the process if its identity matches; return whether it did."""
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if confirm(pid):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
        finally:
            os.close(descriptor)
    return False
