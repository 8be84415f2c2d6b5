"""The deletions of pods on this node, so that a Temporal server restored from a backup starts no deleted pod again.

Each deletion is an empty file, named after UID and incarnation: a pod that is applied again under its UID has another
incarnation. The file's time is that of the deletion. Old files, and the oldest of too many, are removed.
"""

from __future__ import annotations

import contextlib
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, safe_name

_DIRECTORY: Final = "deleted"
KEPT_SECONDS: Final = 30 * 86_400
"""How long a deletion is remembered: longer than backups of a database are usually kept."""
KEPT_PODS: Final = 20_000
"""How many are remembered; each takes an inode, and no space."""


def note_deleted(node: NodeContext, uid: str, incarnation: str) -> None:
    """Note that this life of a pod has ended for good. Blocks; safe to repeat. Raises OSError, UnsafeName."""
    path = _path(node, uid, incarnation)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def deleted_at(node: NodeContext, uid: str, incarnation: str) -> datetime | None:
    """Return when this life of a pod was deleted; None if it was not, or if that is forgotten. Blocks."""
    try:
        return datetime.fromtimestamp(_path(node, uid, incarnation).stat().st_mtime, UTC)
    except (OSError, UnsafeName):
        return None


def tidy_deleted(node: NodeContext) -> int:
    """Forget deletions that are too old, and the oldest of too many; return how many. Blocks. Raises OSError."""
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


def _path(node: NodeContext, uid: str, incarnation: str) -> Path:
    return node.state_dir / _DIRECTORY / safe_name(f"{uid}.{incarnation}", "metadata.uid")
