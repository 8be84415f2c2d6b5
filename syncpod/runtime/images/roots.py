"""The directories of loaded images' files, which are removed once neither an image nor a container uses them.

In `images/roots`:

    <64 digits>      the files of the images with these layers; complete, and never changed
    unfinished-…     being unpacked by the process that holds the lock, or left by one that was killed
    removed-…        no longer used, and about to be removed
    lock             held by the process that adds or removes directories

"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from syncpod.kernel.tree_removal import remove_tree

UNFINISHED: Final = "unfinished-"
_REMOVED: Final = "removed-"
_LOCK: Final = "lock"


@contextlib.contextmanager
def held(roots: Path, *, wait: bool) -> Iterator[bool]:
    """Lock the directory, which is made if missing. Raises OSError.

    Yields False if another process holds the lock and `wait` is False.
    """
    roots.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(roots / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(lock)
        yield False
        return
    try:
        yield True
    finally:
        os.close(lock)


def remove_unfinished(roots: Path) -> None:
    """Remove the directories that a killed process left unfinished. The caller holds the lock. Raises OSError."""
    for unfinished in roots.glob(f"{UNFINISHED}*"):
        remove_tree(unfinished)


def retire(roots: Path, in_use: Callable[[], Collection[str]]) -> bool:
    """Rename the roots that are not `in_use`; return whether there is anything to remove. Raises OSError.

    Nothing is renamed while an image is being loaded, since its root is not in use until the image is recorded.
    """
    if not roots.is_dir():
        return False
    with held(roots, wait=False) as ours:
        kept = in_use() if ours else ()
        for root in roots.iterdir() if ours else ():
            if re.fullmatch(r"[0-9a-f]{64}", root.name) and root.name not in kept:
                root.rename(roots / f"{_REMOVED}{secrets.token_hex(8)}")
    return any(roots.glob(f"{_REMOVED}*"))


def remove_retired(roots: Path) -> None:
    """Remove the renamed roots. Blocks. Raises OSError."""
    for removed in roots.glob(f"{_REMOVED}*"):
        remove_tree(removed)
