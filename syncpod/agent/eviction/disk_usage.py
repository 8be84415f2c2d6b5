"""Measures the disk usage of a directory in allocated blocks, as the kubelet does."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import NamedTuple

_BLOCK_BYTES = 512
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT_OPEN = 32
"""How many levels of a tree are kept open, from the top: so the descriptors do not run out in a deep tree."""


@dataclass(frozen=True)
class DiskUsage:
    """The usage of a directory."""

    bytes: int
    """Bytes allocated on disk: the sum of blocks, not of file lengths."""
    inodes: int = 0
    """Files, directories and everything else with an inode."""
    whole: bool = True
    """False if counting took too long or failed in part, so that the true usage may be larger."""


def disk_usage(directory: Path, *, seconds: float, own_mount: bool = True) -> DiskUsage:
    """Return the usage of a directory and everything below it; zero if the directory is missing.

    Counts for `seconds` at most. A file with several names counts once, links are not followed, and other file systems
    are not entered. With `own_mount` False, a directory that is a mount point counts as empty: the kernel enforces its
    size. Blocks, for ever on a file system that hangs. Raises OSError if the directory itself cannot be read.

    Mirrors volume/util/fs/fs.go, v1.36, DiskUsage. Differences: it has a time limit; an entry that cannot be read does
    not make the whole result unknown; files whose path is longer than PATH_MAX count too.
    """
    try:
        top = directory.lstat()
        if not own_mount and top.st_dev != directory.parent.lstat().st_dev:
            return DiskUsage(0)
    except (FileNotFoundError, NotADirectoryError):
        return DiskUsage(0)
    count = _Count(top, time.monotonic() + seconds)
    if S_ISDIR(top.st_mode):
        try:
            count.add_below(directory)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            count.whole = False
    return DiskUsage(count.blocks * _BLOCK_BYTES, count.inodes, count.whole)


class _Level(NamedTuple):
    """A directory on the path to the directory that is being counted."""

    opened: int
    """The directory's descriptor; -1 if the directory is too deep to be kept open. Then the way back up is ``..``."""
    is_file: tuple[int, int]
    """Its device and inode."""
    directories: list[str]
    """The names of its subdirectories that are not counted yet."""


class _Count:
    """The count of a tree so far. Its directories may be moved, removed and replaced meanwhile."""

    def __init__(self, top: os.stat_result, until: float) -> None:
        self.blocks, self.inodes, self.whole = top.st_blocks, 1, True
        self._device, self._until = top.st_dev, until
        self._several_names: set[int] = set()
        self._way: list[_Level] = []

    def add_below(self, directory: Path) -> None:
        """Count everything below a directory, depth first. Raises OSError if the directory cannot be opened."""
        here = os.open(directory, _DIRECTORY)
        try:
            self._enter(here)
            while self._way and time.monotonic() <= self._until:
                if not self._way[-1].directories:
                    here = self._leave(here)
                elif (child := self._opened(here, self._way[-1].directories.pop())) is not None:
                    if self._way[-1].opened < 0:
                        os.close(here)
                    here = child
                    self._enter(here)
            self.whole = self.whole and not self._way
        finally:
            for descriptor in {here, *(level.opened for level in self._way)} - {-1}:
                os.close(descriptor)

    def _opened(self, directory: int, name: str) -> int | None:
        try:
            return os.open(name, _DIRECTORY, dir_fd=directory)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            self.whole = False
            return None

    def _enter(self, opened: int) -> None:
        """Count the entries of an open directory, and make it the current one."""
        found, directories = os.fstat(opened), []
        try:
            with os.scandir(opened) as entries:
                for entry in entries:
                    if time.monotonic() > self._until:
                        self.whole = False
                        break
                    if self._add(entry):
                        directories.append(entry.name)
        except OSError:
            self.whole = False
        kept = opened if len(self._way) < _KEPT_OPEN else -1
        self._way.append(_Level(kept, (found.st_dev, found.st_ino), directories))

    def _add(self, entry: os.DirEntry[str]) -> bool:
        """Count an entry once, and say whether it is a directory of this file system."""
        stat = _stat(entry)
        if stat is None or stat.st_dev != self._device or stat.st_ino in self._several_names:
            return False
        self.blocks += stat.st_blocks
        self.inodes += 1
        if not S_ISDIR(stat.st_mode) and stat.st_nlink > 1:
            self._several_names.add(stat.st_ino)
        return S_ISDIR(stat.st_mode)

    def _leave(self, here: int) -> int:
        """Close a directory; return the descriptor of its parent, -1 if it has none.

        If a directory was moved, the descriptor is that of the nearest ancestor that is still open.
        """
        self._way.pop()
        if not self._way or self._way[-1].opened >= 0:
            os.close(here)
            return self._way[-1].opened if self._way else -1
        above = self._opened(here, "..")
        os.close(here)
        if above is not None:
            found = os.fstat(above)
            if (found.st_dev, found.st_ino) == self._way[-1].is_file:
                return above
            os.close(above)
        self.whole = False
        while self._way[-1].opened < 0:
            self._way.pop()
        return self._way[-1].opened


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None
