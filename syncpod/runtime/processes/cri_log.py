"""A container's log file, in CRI's format: `<RFC 3339 time> <stream> <P|F> <text>`, a line each.

As containerd writes it (internal/cri/io/logger.go): a line of more than 16 KiB becomes several `P` (partial) ones and a
last `F`; what comes without a newline before the stream ends is `P` as well.
"""

from __future__ import annotations

import contextlib
import os
import time

LONGEST_LINE = 16 * 1024


class CriLog:
    """The open log of one container. An empty path keeps nothing."""

    def __init__(self, path: str) -> None:
        """Open the log, appending to an existing one; its directory is made. Raises OSError."""
        self._path = path
        self._pending: dict[bytes, bytes] = {}
        self._second = -1
        self._prefix = b""
        self._file = -1
        if path:
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
            self._file = _open(path)

    def write(self, stream: bytes, data: bytes) -> None:
        """Add what was read from `stream` (`stdout`, `stderr`) now.

        Output that cannot be written (a full disk) is lost: the container is not to stop for it.
        """
        if self._file < 0:
            return
        head = self._timestamp() + b" " + stream
        *lines, rest = (self._pending.get(stream, b"") + data).split(b"\n")
        if lines and max(map(len, lines)) <= LONGEST_LINE >= len(rest):
            # Nearly always: three times as fast for many short lines as one after the other.
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
        """Write what `stream` left without a newline."""
        rest = self._pending.pop(stream, b"")
        if rest and self._file >= 0:
            self._append(b"%b %b P %b\n" % (self._timestamp(), stream, rest))

    def reopen(self) -> None:
        """Go on in a new file at the same path, the old one having been moved away. Raises OSError; then all stays."""
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
    # Non-blocking: a fifo that nobody reads must not hold the container up.
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o640)
