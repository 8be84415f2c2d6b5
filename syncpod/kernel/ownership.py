"""Checks that only this user, and root, can write to a directory.

We signal processes that are recorded in our directories, append to logs in them, and create locks in them. If another
account can write to such a directory, or replace it, that account chooses the process and the files.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from pathlib import Path
from typing import Final

_LINKS: Final = 40
"""The kernel's own limit of symlinks on one path."""
_UNMAPPED: Final = 65534
"""The owner that a user namespace shows for files of users that it does not map, such as the machine's root."""


class NotOurs(Exception):
    """Another account can write to the directory; the text has the path that is at fault, then the reason."""


def require_ours(directory: Path) -> None:
    """Raise NotOurs if another account could have written to the directory, or can replace it.

    The directory must belong to this user or to root, and be writable by nobody else. Each directory on the way must be
    so, too, or have the sticky bit, as /tmp has. Symlinks on the way are followed one by one, and the directories that
    contain them are checked too. This user's own primary group may write: distributions give it no other members. A
    missing directory passes. Blocks. Raises OSError if a directory cannot be examined.
    """
    pending = deque(Path(os.path.abspath(directory)).parts[1:])  # noqa: PTH100  # a link must not be resolved yet
    place, links = Path("/"), 0
    while pending:
        _require_safe_parent(place)
        name = pending.popleft()
        if name == "..":
            place = place.parent
            continue
        try:
            found = (place / name).lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISLNK(found.st_mode):
            place /= name
            continue
        links += 1
        if links > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(directory))
        if found.st_uid not in _trusted():
            raise NotOurs(f"{place / name} is a link that user {found.st_uid} has made")
        target = (place / name).readlink()
        place = Path("/") if target.is_absolute() else place
        pending.extendleft(reversed([part for part in target.parts if part != "/"]))
    found = place.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotOurs(f"{place} is not a directory")
    _require_owner(place, found)
    if _others_write(found):
        raise NotOurs(f"{place} is writable by others (mode {stat.S_IMODE(found.st_mode):04o})")


def _require_safe_parent(place: Path) -> None:
    """Raise NotOurs if another account can rename the entries of a directory on the way."""
    found = place.stat()
    _require_owner(place, found)
    if _others_write(found) and not found.st_mode & stat.S_ISVTX:
        raise NotOurs(f"{place} is writable by others (mode {stat.S_IMODE(found.st_mode):04o}, without the sticky bit)")


def _require_owner(place: Path, found: os.stat_result) -> None:
    if found.st_uid not in _trusted():
        raise NotOurs(f"{place} belongs to user {found.st_uid}")


def _others_write(found: os.stat_result) -> bool:
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid not in (0, os.getegid())
    return bool(by_group or found.st_mode & stat.S_IWOTH)


def _trusted() -> frozenset[int]:
    """Return the users whose files this process trusts: its own, root, and in a user namespace the unmapped user."""
    ours = {os.geteuid(), 0}
    return frozenset(ours if _is_initial_user_namespace() else {*ours, _UNMAPPED})


def _is_initial_user_namespace() -> bool:
    try:
        return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
    except OSError:
        return True
