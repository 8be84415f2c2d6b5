"""The end of a container's log, as the container wrote it: without the runtime's prefixes."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from syncpod.node.log_files import open_log_file
from syncpod.redaction import OVERLAP, of_process


def end_of_log(log: Path, *, limit: int, lines: int, searched: int) -> str:
    """Return the last lines of both streams: at most `limit` bytes and `lines`, within the last `searched` bytes.

    The values of Secrets are hidden, even a value whose beginning was cut off.

    No link to the log is followed: a pod that mounts the log directory could otherwise read another pod's log.
    Mirrors kuberuntime_container.go, v1.36, readLastStringFromContainerLogs. Blocks. Raises OSError.
    """
    data = last_bytes(open_log_file(askable(log)), searched)
    said = []
    # Only a newline ends a record: a container may write the other characters at which Python splits lines.
    for line in data.split(b"\n"):
        parts = line.split(b" ", 3)
        if len(parts) == 4 and parts[1] in (b"stdout", b"stderr"):
            said.append(parts[3] + (b"" if parts[2] == b"P" else b"\n"))
    text = b"".join(said)[-limit - 4 * OVERLAP :].decode(errors="replace")
    return last_part(text, limit, lines=lines)


def last_part(text: str, limit: int, *, lines: int | None = None) -> str:
    """Return the end of a text, at most `limit` bytes and `lines` (None = any number), with Secrets' values hidden.

    A value that the cut divides is hidden too.
    """
    start = len(text) - len(text.encode()[-limit:].decode(errors="ignore"))
    if lines is not None:
        kept = text.split("\n")[-lines - text.endswith("\n") :]
        start = max(start, len(text) - len("\n".join(kept)))
    return of_process.part(text, start)


def askable(path: Path) -> Path:
    """Return the path, if it has no NUL byte, which the kernel would not accept. Raises OSError."""
    if "\0" in str(path):  # the path in the manifest may be invalid, and the runtime has refused it too
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
