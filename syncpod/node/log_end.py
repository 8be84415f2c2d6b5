"""The end of a container's log, as the container wrote it: without the runtime's prefixes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncpod.node.log_files import open_log_file

LONGEST_HIDDEN: Final = 8 * 1024
"""Bytes of the longest value that is hidden although the beginning of what is kept may cut it."""


def end_of_log(
    log: Path, *, limit: int, lines: int, searched: int, hide: Callable[[str], str] = lambda text: text
) -> str:
    """Return the last lines of both streams: at most `limit` bytes and `lines`, within the last `searched` bytes.

    `hide` hides secret values. It gets more than the limit, since it would not recognise a value that was cut in two.

    No link to the log is followed: a pod that mounts the log directory could otherwise read another pod's log.
    Mirrors kuberuntime_container.go, v1.36, readLastStringFromContainerLogs. Blocks. Raises OSError.
    """
    data = last_bytes(open_log_file(askable(log)), searched)
    said = []
    # Only a newline ends a record: containers write every other character that ends a line elsewhere.
    for line in data.split(b"\n"):
        parts = line.split(b" ", 3)
        if len(parts) == 4 and parts[1] in (b"stdout", b"stderr"):
            said.append(parts[3] + (b"" if parts[2] == b"P" else b"\n"))
    text = hide(b"".join(said)[-limit - LONGEST_HIDDEN :].decode(errors="replace"))
    return last_part("\n".join(text.split("\n")[-lines - text.endswith("\n") :]), limit)


def last_part(text: str, limit: int) -> str:
    """Return the end of a text: at most `limit` bytes."""
    return text.encode()[-limit:].decode(errors="replace")


def askable(path: Path) -> Path:
    """Return the path, if the kernel accepts it: it has no NUL byte. Raises OSError."""
    if "\0" in str(path):  # a container's creator may have named any file; the runtime failed on it too
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))
    return path


def last_bytes(descriptor: int, limit: int) -> bytes:
    """Return the last bytes of an open file, and close it. Raises OSError, also if it is not a regular file."""
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        require_regular(found)
        file.seek(max(0, found.st_size - limit))
        return file.read(limit)


def require_regular(found: os.stat_result) -> None:
    """Raise OSError for a link, a pipe, a device, a socket or a directory."""
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
