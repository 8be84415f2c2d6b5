"""How much lies below a directory: blocks on disk, as the kubelet's du counts them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR

_BLOCK_BYTES = 512


@dataclass(frozen=True)
class DiskUsage:
    """What was counted."""

    bytes: int
    """As allocated on disk: blocks, not lengths."""
    inodes: int = 0
    """Files, directories and all else that has a name there."""
    whole: bool = True
    """False where it took too long or could not be read to its end: there may be more."""


def disk_usage(directory: Path, *, seconds: float, own_mount: bool = True) -> DiskUsage:
    """Count what a directory holds, itself included; what is not there holds nothing.

    Counts for `seconds` at most. What has several names counts once, links are not followed, and other file systems not
    entered. With `own_mount` False a directory that is a file system of its own, with a size that the kernel holds it
    to, counts as empty. Blocks, on a file system that hangs without end. Raises OSError where the directory itself
    cannot be looked at.

    Mirrors volume/util/fs/fs.go, v1.36, DiskUsage. Differences: it takes no longer than it is given, and what cannot be
    read does not make all of it unknown.
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
