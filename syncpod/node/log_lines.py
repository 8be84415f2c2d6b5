"""The CRI log format: ``<RFC 3339 time> <stdout|stderr> <tag> <text>``; the tag P means that the line goes on. Pure.

Mirrors kuberuntime/logs/logs.go, v1.36, parseCRILog. Difference: the parts of a long line are joined per stream, up to
a MiB; the kubelet writes them as they come, mixed with those of the other stream. This takes at most some MiB of memory
and linear time, even for endless lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

_WHOLE: Final = re.compile(rb"^([^ \n]+ )std(?:out|err) F(?::[^ \n]*)? ", re.MULTILINE)
"""The beginning of a record that is a whole line."""
_SECOND: Final = re.compile(rb"^([0-9T:-]{19})(?:\.[0-9]+)?(Z|[+-][0-9:]{5}) ", re.MULTILINE)
"""The time to the second, and the time zone, at the beginning of a record."""

_LONGEST_PIECE: Final = 1024 * 1024
"""Maximum bytes of a line that are joined; a longer line is yielded in pieces."""
_LONGEST_RECORD: Final = 1024 * 1024
"""Maximum bytes of a record. Runtimes write at most 16 KiB without a line end, so a longer text is no record."""


@dataclass(frozen=True)
class LogLine:
    """One line of a container, or a piece of a long one; `stamp` is the time as the runtime wrote it."""

    stamp: str
    stream: str
    text: bytes
    """Without the line's end."""
    begins: bool = True
    ends: bool = True
    """True if the line's end is in this piece; `begins` is True if the line's beginning is."""


@dataclass
class _Begun:
    """A line that is being joined."""

    stamp: str
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    has_begun: bool = False
    """True once a piece of the line has been yielded."""

    def piece(self, stream: str, *, ends: bool) -> LogLine:
        """Take the text that has been joined so far."""
        line = LogLine(self.stamp, stream, b"".join(self.parts), begins=not self.has_begun, ends=ends)
        self.parts, self.size, self.has_begun = [], 0, True
        return line


@dataclass
class LineJoiner:
    """Joins raw records, which may come in pieces of any size, to lines."""

    _rest: bytes = b""
    _is_lost: bool = False
    """True while the rest of a record that was too long is skipped."""
    _lines: dict[str, _Begun] = field(default_factory=dict)

    def feed(self, data: bytes) -> Iterator[LogLine]:
        """Yield the lines that `data` completes."""
        *records, self._rest = (self._rest + data).split(b"\n")
        for record in records:
            if self._is_lost:
                self._is_lost = False
            elif line := self._add(record):
                yield line
        if len(self._rest) > _LONGEST_RECORD:
            self._rest, self._is_lost = b"", True

    def flush(self) -> Iterator[LogLine]:
        """Yield unfinished lines at the end of the log."""
        for stream, begun in self._lines.items():
            yield begun.piece(stream, ends=True)
        self._lines = {}

    @property
    def begun(self) -> bool:
        """Return whether there is an unfinished line."""
        return bool(self._rest or self._lines or self._is_lost)

    def _add(self, record: bytes) -> LogLine | None:
        parsed = parse_record(record)
        if parsed is None:
            return None
        stamp, stream, is_partial, text = parsed
        if not is_partial and stream not in self._lines:
            return LogLine(stamp, stream, text)
        begun = self._lines.setdefault(stream, _Begun(stamp))
        begun.parts.append(text)
        begun.size += len(text)
        if not is_partial:
            del self._lines[stream]
            return begun.piece(stream, ends=True)
        return begun.piece(stream, ends=False) if begun.size >= _LONGEST_PIECE else None


class LogText:
    """Turns a log's bytes into the text to print.

    Nearly all records are whole lines, so whole blocks are converted at once. A conversion line by line could not keep
    up with a container that writes 50 MB/s.
    """

    def __init__(
        self,
        *,
        timestamps: bool = False,
        head: bytes = b"",
        since: datetime | None = None,
        limit_bytes: int | None = None,
        stream: str = "",
    ) -> None:
        """Print each line that is not older than `since`, after `head` and, with `timestamps`, its time.

        `stream` is ``stdout`` or ``stderr`` to print one stream only; "" = both. At most `limit_bytes` are printed,
        including times and line ends, but not heads (logs.go, v1.36, write and logWriter; kubectl adds its prefix to
        the text that it receives).
        """
        self._joiner = LineJoiner()
        self._timestamps = timestamps
        self._head = head
        self._since = since
        self._left = limit_bytes
        self._stream = stream
        self._rest = b""
        self._template = head.replace(b"\\", b"\\\\") + (rb"\1" if timestamps else b"")

    @property
    def full(self) -> bool:
        """Return whether the limit is reached."""
        return self._left is not None and self._left <= 0

    def feed(self, data: bytes) -> bytes:
        """Return the text of the lines that `data` completes."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        if not end and len(data) > _LONGEST_RECORD:
            self._rest = b""
            return self._print(self._joiner.feed(data))  # the joiner drops this record up to its line end
        data, self._rest = data[:end], data[end:]
        if self._left is None and not self._stream and not self._joiner.begun and self._is_new_enough(data):
            text, lines = _WHOLE.subn(self._template, data)
            if lines == data.count(b"\n"):
                return text
        return self._print(self._joiner.feed(data))

    def flush(self) -> bytes:
        """Return the text of unfinished lines at the end of the log."""
        return self._print((*self._joiner.feed(self._rest), *self._joiner.flush()))

    def _is_new_enough(self, data: bytes) -> bool:
        """Return whether all lines of a block are new enough, to the second; False if this cannot be decided."""
        if self._since is None:
            return True
        seconds = _SECOND.findall(data)
        since = self._since
        return len(seconds) == data.count(b"\n") and all(
            _is_new_enough((second + zone).decode(), since) for second, zone in set(seconds)
        )

    def _print(self, lines: Iterable[LogLine]) -> bytes:
        return b"".join(self._shown(line) for line in lines)

    def _shown(self, line: LogLine) -> bytes:
        # A later line may still be too old: a clock can be set back, and a runtime copies two streams.
        if self._since is not None and not _is_new_enough(line.stamp, self._since):
            return b""
        if self._stream and line.stream != self._stream:
            return b""
        text = line.text + (b"\n" if line.ends else b"")
        if self._timestamps and line.begins:
            text = f"{line.stamp} ".encode() + text
        if self._left is not None:
            text = text[: max(self._left, 0)]
            self._left -= len(text)
        return (self._head if line.begins else b"") + text if text else b""


def _is_new_enough(stamp: str, since: datetime) -> bool:
    """Return whether a line of that time is not older than `since`; True if its time cannot be parsed."""
    try:
        return datetime.fromisoformat(stamp) >= since
    except ValueError:
        return True


def parse_record(record: bytes) -> tuple[str, str, bool, bytes] | None:
    """Return the time, the stream, True if the line continues, and the text; None if it is no record (a torn write)."""
    stamp, _, rest = record.partition(b" ")
    stream, _, rest = rest.partition(b" ")
    tag, _, text = rest.partition(b" ")
    if stream not in (b"stdout", b"stderr") or not tag:
        return None
    return stamp.decode(errors="replace"), stream.decode(), tag.split(b":")[0] == b"P", text


def count_lines(blocks: Iterable[bytes], *, with_unfinished: bool) -> int:
    """Return the number of lines in the blocks of a log; `with_unfinished` also counts an unfinished last line."""
    joiner, lines = LineJoiner(), 0
    for block in blocks:
        lines += sum(line.ends for line in joiner.feed(block))
    return lines + (sum(line.ends for line in joiner.flush()) if with_unfinished else 0)


def starts_of_last_lines(blocks: Iterable[tuple[int, bytes]], count: int, *, with_unfinished: bool) -> int:
    """Return the offset in a log at which its last `count` lines begin.

    `blocks` are the log's contents from its end to its beginning, each with its offset. With `with_unfinished`, a line
    without an end counts (kuberuntime/logs/tail.go, v1.36, findTailLineStartIndex); otherwise it continues in a later
    file. A torn record does not count.
    """
    rest, at = b"", 0
    lines = _LinesFromTheEnd(with_unfinished=with_unfinished)
    for at, block in blocks:
        data = block + rest
        position = len(data)
        while (cut := data.rfind(b"\n", 0, max(0, position - 1))) >= 0:
            # The text after the cut is one record. If this record ends a line, everything after it belongs to later
            # lines.
            if lines.add(data[cut + 1 : position]) > count:
                return at + position
            position = cut + 1
        rest = data[:position] if position <= _LONGEST_RECORD else b""
    return at + len(rest) if lines.add(rest) > count else at


class _LinesFromTheEnd:
    """Counts a log's lines from its end, by the last record of each line."""

    def __init__(self, *, with_unfinished: bool) -> None:
        self._seen = 0
        self._finished: set[str] = set() if with_unfinished else {"stdout", "stderr"}
        """Streams with a counted record: an earlier partial record of one of these streams ends no line."""

    def add(self, record: bytes) -> int:
        """Add the record before all others; return the number of lines so far."""
        parsed = parse_record(record.rstrip(b"\n")) if record.endswith(b"\n") else None
        if parsed is not None:
            _, stream, is_partial, _ = parsed
            self._seen += not is_partial or stream not in self._finished
            self._finished.add(stream)
        return self._seen
