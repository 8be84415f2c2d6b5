"""A container's log file in CRI's format, with lines of `<RFC 3339 time> <stream> <P|F> <text>`.

As in containerd (internal/cri/io/logger.go), a line of more than 16 KiB becomes several `P` (partial) lines and a final
`F`; a last line without a newline is `P` too.
"""

from __future__ import annotations

import contextlib
import os
import time

LONGEST_LINE = 16 * 1024


class CriLog:
    """The open log of one container. With an empty path output is discarded."""

    def __init__(self, path: str) -> None:
        """Open the log for appending, and make its directory. Raises OSError."""
        self._path = path
        self._pending: dict[bytes, bytes] = {}
        self._second = -1
        self._prefix = b""
        self._file = -1
        if path:
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
            self._file = _open(path)

    def write(self, stream: bytes, data: bytes) -> None:
        """Append output that was just read from `stream` (`stdout`, `stderr`).

        Output that cannot be written (full disk) is lost, so that the container never blocks on its log.
        """
        if self._file < 0:
            return
        head = self._timestamp() + b" " + stream
        *lines, rest = (self._pending.get(stream, b"") + data).split(b"\n")
        if lines and max(map(len, lines)) <= LONGEST_LINE >= len(rest):
            # The usual case: with many short lines this is three times as fast as writing them one by one.
            self._pending[stream] = rest
            self._append(b"%b F %b\n" % (head, (b"\n%b F " % head).join(lines)))
            return
        out = []
        for line in lines:
            while len(line) > LONGEST_LINE:
                out.append(b"%b P %b\n" % (head, line[:LONGEST_LINE]))
                line = line[LONGEST_LINE:]
            out.append(b"%b F %b\n" % (head, line))
        while len(rest) > LONGEST_LINE:
            out.append(b"%b P %b\n" % (head, rest[:LONGEST_LINE]))
            rest = rest[LONGEST_LINE:]
        self._pending[stream] = rest
        self._append(b"".join(out))

    def end(self, stream: bytes) -> None:
        """Write the rest of `stream`, which has no newline."""
        rest = self._pending.pop(stream, b"")
        if rest and self._file >= 0:
            self._append(b"%b %b P %b\n" % (self._timestamp(), stream, rest))

    def reopen(self) -> None:
        """Reopen the file at the same path, after the old one was renamed.

        Raises OSError, and then keeps the old file.
        """
        if self._file < 0:
            return
        new = _open(self._path)
        os.close(self._file)
        self._file = new

    def _append(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._file, data) :]

    def _timestamp(self) -> bytes:
        second, nanosecond = divmod(time.time_ns(), 1_000_000_000)
        if second != self._second:
            self._second = second
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()
        return b"%b.%09dZ" % (self._prefix, nanosecond)


def _open(path: str) -> int:
    # Non-blocking: a FIFO that nobody reads must not block the container.
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o640)
