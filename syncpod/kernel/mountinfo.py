"""Reads /proc/<pid>/mountinfo: the mounts that are visible to a process (proc_pid_mountinfo(5))."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

MOUNTINFO = Path("/proc/self/mountinfo")

_OCTAL = re.compile(rb"\\([0-7]{3})")
"""The kernel writes space, tab, newline, backslash and `#` as three octal digits."""


class Mount(NamedTuple):
    """One mount. Paths are decoded as `os.fsdecode` does, so that any name survives."""

    device: str
    """``major:minor`` of the file system, as in `st_dev`."""
    root: str
    """The directory of the file system that is mounted; ``/`` is all of it."""
    mount_point: str
    """The absolute path at which it is mounted, without symlinks."""
    propagation: tuple[str, ...]
    """``shared:1``, ``master:2`` and so on; empty for a private mount."""
    file_system: str
    """``tmpfs``, ``ext4`` and so on."""
    options: tuple[str, ...]
    """The file system's own options."""


def read_mounts(file: Path = MOUNTINFO, *, file_system: str = "") -> tuple[Mount, ...]:
    """Return the mounts that a mountinfo file lists, as `parse_mounts` does. Raises OSError."""
    return parse_mounts(file.read_bytes(), file_system=file_system)


def parse_mounts(text: bytes, *, file_system: str = "") -> tuple[Mount, ...]:
    """Return the mounts of a mountinfo text. A later one hides an earlier one at the same mount point.

    Only mounts whose type begins with `file_system` are returned. Others are not parsed, which saves time on a full
    node with its thousand mounts.

    Fields are separated by exactly one space and lines by exactly one newline: a source may be empty, and a path may
    hold any other white space. Raises ValueError for a text that is not mountinfo.
    """
    lines = (line for line in text.split(b"\n") if line)
    if file_system:
        begin = b" - " + os.fsencode(file_system)  # no field has a space, so the text before the separator cannot match
        lines = (line for line in lines if begin in line)
    found = (_mount(line.split(b" ")) for line in lines)
    return tuple(each for each in found if each.file_system.startswith(file_system))


def mount_of(mounts: Iterable[Mount], path: Path) -> Mount | None:
    """Return the mount that an absolute path lies on: the topmost one at the path's deepest mount point.

    None if no part of the path is a mount point, as in a chroot whose root is not one.
    """
    on_the_way = [each for each in mounts if path.is_relative_to(each.mount_point)]
    return max(reversed(on_the_way), key=lambda each: len(Path(each.mount_point).parts), default=None)


def _mount(fields: list[bytes]) -> Mount:
    dash = fields.index(b"-", 6)
    return Mount(
        device=os.fsdecode(fields[2]),
        root=_path(fields[3]),
        mount_point=_path(fields[4]),
        propagation=tuple(map(os.fsdecode, fields[6:dash])),
        file_system=os.fsdecode(fields[dash + 1]),
        options=tuple(os.fsdecode(fields[dash + 3]).split(",")),
    )


def _path(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), field))
