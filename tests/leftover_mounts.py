"""At its start, a test run unmounts and removes what killed runs left below pytest's temporary directories.

Pytest itself can remove neither mounts nor the directories without permissions that the kernel makes for an overlay.
Each later run would try again, and warn about each parent directory.
"""

from __future__ import annotations

import contextlib
import getpass
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from syncpod.kernel.mountinfo import read_mounts
from syncpod.kernel.tree_removal import remove_tree

_LOCK = ".lock"
"""The file in which pytest records the process that owns a temporary directory."""


def left_behind(mount_points: Iterable[str], root: Path, alive: Callable[[int], bool]) -> Iterator[str]:
    """Yield the mount points in directories of `root` that belong to no living run, the innermost first."""
    ours = [Path(each) for each in mount_points if Path(each).is_relative_to(root) and Path(each) != root]
    for place in sorted(ours, key=lambda place: -len(place.parts)):
        if not _is_used(root / place.relative_to(root).parts[0], alive):
            yield str(place)


def unmount_left_behind() -> None:
    """Unmount the leftovers of this user's runs. Does nothing if that is not permitted."""
    root = _root()
    mounts = (each.mount_point for each in reversed(read_mounts()))
    for place in left_behind(mounts, root, lambda pid: Path(f"/proc/{pid}").exists()):
        subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)


def remove_left_behind() -> None:
    """Remove directories that pytest failed to remove and named `garbage-...`. Mounted ones are kept."""
    for garbage in _root().glob("garbage-*"):
        with contextlib.suppress(OSError):
            remove_tree(garbage)


def _root() -> Path:
    """Return the directory of this user's runs, which may not exist."""
    return Path(tempfile.gettempdir()).resolve() / f"pytest-of-{_user()}"


def _user() -> str:
    """Return the user's name in pytest's directories, which also exists for unknown users."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _is_used(directory: Path, alive: Callable[[int], bool]) -> bool:
    try:
        return alive(int((directory / _LOCK).read_text()))
    except (OSError, ValueError):
        return False
