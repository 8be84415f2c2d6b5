"""Tombstones: a node's records of pods' lives that are over.

Once a life has a tombstone, its remains may be removed at any time, its UID is free, and a deleted pod does not start
again after its Temporal server was restored from a backup. Each tombstone is an empty file, named after UID and
incarnation: the next life under the UID has another incarnation. The file's time is that of the deletion. Old
tombstones are removed, and the oldest ones if there are too many.
"""

from __future__ import annotations

import contextlib
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from syncpod.node.pod_records import PodRecord, read_pod_record
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, pods_directory, safe_name

_DIRECTORY: Final = "deleted"
KEPT_SECONDS: Final = 30 * 86_400
"""Seconds for which a tombstone is kept: longer than a backup of a database usually is."""
KEPT_PODS: Final = 20_000
"""Maximum number of tombstones; each takes an inode, and no space."""


def write_tombstone(node: NodeContext, uid: str, incarnation: str) -> None:
    """Record that this life of a pod is over. Blocks; safe to repeat. Raises OSError, UnsafeName."""
    path = _path(node.state_dir, uid, incarnation)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def tombstone_at(node: NodeContext, uid: str, incarnation: str) -> datetime | None:
    """Return when this life of a pod was deleted; None if it was not deleted, or if its tombstone was removed.

    Blocks.
    """
    return tombstone_in(node.state_dir, uid, incarnation)


def tombstone_in(state_dir: Path, uid: str, incarnation: str) -> datetime | None:
    """Return the result of `tombstone_at`, given the state directory of the pod's node. Blocks."""
    try:
        return datetime.fromtimestamp(_path(state_dir, uid, incarnation).stat().st_mtime, UTC)
    except (OSError, UnsafeName):
        return None


def record_of_ended_life(node: NodeContext, uid: str) -> PodRecord | None:
    """Return a pod's record if the recorded life has a tombstone; else None. Blocks.

    Raises OSError, UnsafeName.
    """
    record = read_pod_record(node, uid)
    return record if record is not None and tombstone_at(node, uid, record.incarnation) is not None else None


def prune_tombstones(node: NodeContext) -> int:
    """Remove tombstones that are too old, and the oldest if there are too many; return their number. Blocks.

    Raises OSError.
    """
    try:
        found = sorted((each.stat().st_mtime, each.name) for each in os.scandir(node.state_dir / _DIRECTORY))
    except FileNotFoundError:
        return 0
    oldest = time.time() - KEPT_SECONDS
    surplus = len(found) - KEPT_PODS
    gone = [name for place, (at, name) in enumerate(found) if at < oldest or place < surplus]
    for name in gone:
        with contextlib.suppress(FileNotFoundError):
            (node.state_dir / _DIRECTORY / name).unlink()
    return len(gone)


def remove_emptied_directories(node: NodeContext) -> int:
    """Remove empty directories of pods whose lives are over; return their number. Blocks. Raises OSError.

    A worker that was killed in the last moment of a removal has left one: no record in it shows the pod. Use it before
    any step runs, since a step makes a pod's directory before its content.
    """
    try:
        over = {each.name.rpartition(".")[0] for each in os.scandir(node.state_dir / _DIRECTORY)}
        found = [Path(each.path) for each in os.scandir(pods_directory(node)) if each.name in over]
    except FileNotFoundError:
        return 0
    removed = 0
    for path in found:
        with contextlib.suppress(OSError):  # mostly because it is not empty: its remains are removed later
            path.rmdir()
            removed += 1
    return removed


def _path(state_dir: Path, uid: str, incarnation: str) -> Path:
    return state_dir / _DIRECTORY / safe_name(f"{uid}.{incarnation}", "metadata.uid")
