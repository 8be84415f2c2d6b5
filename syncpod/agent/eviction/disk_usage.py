"""Measures how much a directory holds: blocks on disk, as the kubelet counts them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR

_BLOCK_BYTES = 512


@dataclass(frozen=True)
class DiskUsage:
    """The usage of a directory."""

    bytes: int
    """Allocated on disk: blocks, not file lengths."""
    inodes: int = 0
    """Files, directories and everything else with an inode."""
    whole: bool = True
    """False if counting took too long or failed in part: there may be more."""


def disk_usage(directory: Path, *, seconds: float, own_mount: bool = True) -> DiskUsage:
    """Count what a directory holds, including itself; a missing directory holds nothing.

    Counts for `seconds` at most. A file with several names counts once, links are not followed, and other file systems
    are not entered. With `own_mount` False, a directory that is a mount point counts as empty: the kernel enforces its
    size. Blocks, for ever on a file system that hangs. Raises OSError if the directory itself cannot be read.

    Mirrors volume/util/fs/fs.go, v1.36, DiskUsage. Differences: it has a time limit, and an entry that cannot be read
    does not make the whole result unknown.
    """
    try:
        top = directory.lstat()
        if not own_mount and top.st_dev != directory.parent.lstat().st_dev:
            return DiskUsage(0)
    except (FileNotFoundError, NotADirectoryError):
        return DiskUsage(0)
    blocks, inodes = top.st_blocks, 1
    several_names: set[int] = set()
    waiting = [os.fspath(directory)] if S_ISDIR(top.st_mode) else []
    until = time.monotonic() + seconds
    whole = True
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if time.monotonic() > until:
                        return DiskUsage(blocks * _BLOCK_BYTES, inodes, whole=False)
                    stat = _stat(entry)
                    if stat is None or stat.st_dev != top.st_dev or stat.st_ino in several_names:
                        continue
                    blocks += stat.st_blocks
                    inodes += 1
                    if S_ISDIR(stat.st_mode):
                        waiting.append(entry.path)
                    elif stat.st_nlink > 1:
                        several_names.add(stat.st_ino)
        except FileNotFoundError:
            continue
        except OSError:
            whole = False
    return DiskUsage(blocks * _BLOCK_BYTES, inodes, whole=whole)


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None
