"""Replacing a file's content at once or not at all, for whatever a node keeps on disk."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def replace_file(path: Path, content: str | bytes, *, durable: bool, draft: Path | None = None) -> None:
    """Replace a file's content, text as UTF-8: a reader, and whoever comes after a crash, has the old or the new whole.

    `durable`: it is on disk when this returns, and outlasts a power cut; without, the machine may lose the change, but
    nobody sees half of it. The new file has mode 0600, whatever the old one had. It is written beside `path` under a
    hidden name, or as `draft`, which must lie on the same file system; one that lies there from a crash is nobody's.
    One writer at a time: others are kept out by the caller. Blocks. Raises OSError, and leaves no draft.
    """
    draft = draft or path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    if durable:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Have what was made, renamed or removed in a directory outlast a power cut. Blocks. Raises OSError."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
