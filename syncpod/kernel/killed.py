"""Detects a process that was killed but is still there, because one of its threads waits for a disk that hangs.

Not even SIGKILL interrupts a call that a FUSE server has taken and does not answer. Until the call returns, the process
keeps all its open files, sockets and locks, but none of its threads runs its program any more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SIGKILL: Final = 1 << 8
"""The bit of SIGKILL in the sets of signals that /proc shows."""

_EXITING: Final = 0x4
"""The kernel's PF_EXITING: the thread has taken its SIGKILL, and will not return to its program."""

_ENDING_SECONDS: Final = 1.0
"""Maximum seconds until all threads of a killed process show the signal or their end; at first, some show neither."""

_PAUSE_SECONDS: Final = 0.005


def is_killed_with(pid: int, opened: int) -> bool:
    """Return whether a process was killed, still exists, and has the file of the descriptor `opened` open.

    A process counts as killed if each of its threads has ended, or has a SIGKILL that ends it before it runs on: this
    cannot be revoked, and such threads start no others. If only some threads have a SIGKILL, this waits up to a second
    for the others. False for a process that is gone, or that this user may not inspect. Raises OSError.
    """
    until = time.monotonic() + _ENDING_SECONDS
    try:
        while True:
            left = list(_threads_left(pid))
            ending = [each for each in left if _is_to_end(each)]
            if not ending:
                return False
            if len(ending) == len(left):
                return any(_has_open(each, opened) for each in left)
            if time.monotonic() > until:
                return False
            time.sleep(_PAUSE_SECONDS)
    except PermissionError:
        return False


def _threads_left(pid: int) -> Iterator[Path]:
    """Yield the threads of a process that have not ended."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return
    for thread in threads:
        if _state(thread) not in ("Z", "X"):
            yield thread


def _state(thread: Path) -> str:
    """Return the letter of a thread's state; "X" where it is gone."""
    return _status(thread).get("State", "X").split()[0]


def _is_to_end(thread: Path) -> bool:
    return bool(int(_status(thread).get("SigPnd", "0"), 16) & _SIGKILL) or bool(_flags(thread) & _EXITING)


def _status(thread: Path) -> dict[str, str]:
    """Return the fields of a thread's status; none where it is gone."""
    try:
        lines = (thread / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _flags(thread: Path) -> int:
    """Return the kernel's flags of a thread (proc_pid_stat(5), field 9); PF_EXITING if it is gone."""
    try:
        after_name = (thread / "stat").read_text().rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return _EXITING
    return int(after_name.split()[6])


def _has_open(thread: Path, opened: int) -> bool:
    """Return whether a thread's process has the same path open.

    Only names are compared, since the file's disk may hang.
    """
    wanted = Path(f"/proc/self/fd/{opened}").readlink()
    try:
        return any(each.readlink() == wanted for each in (thread / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):  # this thread is ending; another one shows the files
        return False
