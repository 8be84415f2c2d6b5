"""Kills all processes in a container's cgroup, forks included: for the server, and for supervisors.

This is more reliable than a walk through process trees: a process can leave its parent, but not its cgroup. If the
kernel can freeze or kill a whole cgroup, no process can escape by forks.
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
    """The file that freezes a cgroup, and the values to freeze and thaw it."""

    file: Path
    stop: str
    go_on: str


def kill(directories: tuple[Path, ...]) -> int:
    """Kill all processes of one cgroup, given its directories in all hierarchies; a missing directory is ignored.

    When this returns, each process has been sent SIGKILL, but may still be dying. Returns the number of processes that
    the last round found. A new process can enter afterwards. Raises OSError.
    """
    whole = next((file for each in directories if (file := each / "cgroup.kill").exists()), None)
    freezer = next((found for each in directories if (found := _freezer(each))), None)
    if whole is not None:
        with _gone_is_fine():
            cgroupfs.write(whole, "1")
    elif freezer is not None:
        _kill_frozen(freezer, directories)
    # This finds processes that entered only some of the hierarchies. Without kill and freezer, the loop repeats until
    # no process is left that could fork.
    seen = 0
    for _ in range(_ROUNDS):
        seen = sum(len(cgroupfs.kill_processes(directory)) for directory in directories)
        if not seen or whole or freezer:
            break
    return seen


def _freezer(directory: Path) -> _Freezer | None:
    """Return the freezer of a cgroup directory of version 1 or 2; None if it has none."""
    for freezer in (
        _Freezer(directory / "cgroup.freeze", "1", "0"),
        _Freezer(directory / "freezer.state", "FROZEN", "THAWED"),
    ):
        if freezer.file.exists():
            return freezer
    return None


def _kill_frozen(freezer: _Freezer, directories: tuple[Path, ...]) -> None:
    """Kill the listed processes while they are frozen and cannot fork; they die once thawed."""
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
