"""Atomic replacement of files, for everything that a node keeps on disk."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def replace_file(path: Path, content: str | bytes, *, durable: bool, draft: Path | None = None) -> None:
    """Replace a file's content atomically; text is written as UTF-8.

    A reader sees either the old content or the new one, even after a crash. With `durable` the new content is on disk
    when this returns and survives a power cut; without it, a power cut may lose the change. The new file has mode 0600,
    whatever mode the old file had. It is written under a hidden name beside `path`, or as `draft`, which must be on the
    same file system; a draft left by a crash is overwritten. The caller must keep out other writers. Blocks. Raises
    OSError, and then leaves no draft behind.
    """
    draft = draft or path.with_name(f".{path.name}.new")
    data = memoryview(content.encode() if isinstance(content, str) else content)
    descriptor = _made_anew(draft)
    try:
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a failed write, as on a full disk, names no file
        raise
    if durable:
        sync_directory(path.parent)


def _made_anew(draft: Path) -> int:
    """Replace the file by an empty one, and return its descriptor. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(draft, flags, 0o600)
    except FileExistsError:
        draft.unlink()
        return os.open(draft, flags, 0o600)


def sync_file(path: Path) -> None:
    """Sync a file and its name, so that content that was written without `durable` survives a power cut. Blocks.

    Raises OSError.
    """
    _sync(path, os.O_NOFOLLOW)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Sync a directory, so that the creation, renaming and removal of files in it survive a power cut. Blocks.

    Raises OSError.
    """
    _sync(directory, os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
