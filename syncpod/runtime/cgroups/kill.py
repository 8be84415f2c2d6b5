"""Killing everything in a container's cgroup, forks included: for the server, and for supervisors.

Surer than any walk through process trees: a process leaves its parent behind, but not its cgroup, and where the kernel
can stop or kill a cgroup as a whole no process in it can fork faster than it is killed.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from syncpod.kernel import cgroupfs

_ROUNDS = 100


@dataclass(frozen=True)
class _Freezer:
    """The file that stops all processes of a cgroup, and what to write to stop them and to let them go on."""

    file: Path
    stop: str
    go_on: str


def kill(directories: tuple[Path, ...]) -> int:
    """Kill what is in one cgroup, given its directories in all hierarchies; missing ones are fine.

    They are only told to die when this returns: how many were seen last. A new process can enter afterwards. Raises
    OSError.
    """
    whole = next((file for each in directories if (file := each / "cgroup.kill").exists()), None)
    freezer = next((found for each in directories if (found := _freezer(each))), None)
    if whole is not None:
        with _gone_is_fine():
            cgroupfs.write(whole, "1")
    elif freezer is not None:
        _kill_frozen(freezer, directories)
    # Those that had entered only some of the hierarchies; where nothing stops them from forking, until all know.
    seen = 0
    for _ in range(_ROUNDS):
        seen = sum(len(cgroupfs.kill_processes(directory)) for directory in directories)
        if not seen or whole or freezer:
            break
    return seen


def _freezer(directory: Path) -> _Freezer | None:
    """Return what stops all processes in a directory of version 1 or 2; None where nothing does."""
    for freezer in (
        _Freezer(directory / "cgroup.freeze", "1", "0"),
        _Freezer(directory / "freezer.state", "FROZEN", "THAWED"),
    ):
        if freezer.file.exists():
            return freezer
    return None


def _kill_frozen(freezer: _Freezer, directories: tuple[Path, ...]) -> None:
    """Kill what is listed while none of it can fork; the dead go once they may go on."""
    try:
        with _gone_is_fine():
            cgroupfs.write(freezer.file, freezer.stop)
        for directory in directories:
            cgroupfs.kill_processes(directory)
    finally:
        with _gone_is_fine():
            cgroupfs.write(freezer.file, freezer.go_on)


@contextlib.contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise
