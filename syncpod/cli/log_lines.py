"""The CRI log format: ``<RFC 3339 time> <stdout|stderr> <tag> <text>``, where the tag P marks a line's beginning.

Pure: bytes in, lines out. Mirrors kuberuntime/logs/logs.go, v1.36, parseCRILog. Difference: the parts of a long line
are joined for each stream by itself, where the kubelet writes them as they come, mixed with the other stream's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LogLine:
    """One whole line that a container wrote, without its line end; `stamp` is as the runtime wrote it."""

    stamp: str
    stream: str
    text: bytes


@dataclass
class LineJoiner:
    """Makes lines of raw records, which may come in pieces of any size."""

    _rest: bytes = b""
    _parts: dict[str, LogLine] = field(default_factory=dict)

    def feed(self, data: bytes) -> Iterator[LogLine]:
        """Yield the lines that `data` completes."""
        *records, self._rest = (self._rest + data).split(b"\n")
        for record in records:
            if line := self._add(record):
                yield line

    def flush(self) -> Iterator[LogLine]:
        """Yield what the container left without a line end."""
        yield from self._parts.values()
        self._parts = {}

    def _add(self, record: bytes) -> LogLine | None:
        parsed = parse_record(record)
        if parsed is None:
            return None
        stamp, stream, is_partial, text = parsed
        begun = self._parts.pop(stream, None)
        line = LogLine(begun.stamp if begun else stamp, stream, begun.text + text if begun else text)
        if is_partial:
            self._parts[stream] = line
            return None
        return line


def parse_record(record: bytes) -> tuple[str, str, bool, bytes] | None:
    """Return time, stream, whether more of the line follows, and text; None for what is no record (a torn write)."""
    stamp, _, rest = record.partition(b" ")
    stream, _, rest = rest.partition(b" ")
    tag, _, text = rest.partition(b" ")
    if stream not in (b"stdout", b"stderr") or not tag:
        return None
    return stamp.decode(errors="replace"), stream.decode(), tag.split(b":")[0] == b"P", text


def starts_of_last_lines(blocks: Iterable[tuple[int, bytes]], count: int) -> int:
    """Return the offset in a log at which its last `count` lines begin.

    `blocks` are the log's contents from its end to its beginning, each with the offset at which it starts.
    """
    rest, at, seen = b"", 0, 0
    for at, block in blocks:
        data = block + rest
        position = len(data)
        while (cut := data.rfind(b"\n", 0, max(0, position - 1))) >= 0:
            # What stands behind the cut is one record. One that ends a line makes all behind it a line of its own.
            if _ends_a_line(data[cut + 1 : position]):
                seen += 1
                if seen > count:
                    return at + position
            position = cut + 1
        rest = data[:position]
    if _ends_a_line(rest) and seen + 1 > count:
        return at + len(rest)
    return at


def _ends_a_line(record: bytes) -> bool:
    parsed = parse_record(record.rstrip(b"\n"))
    return parsed is not None and not parsed[2]
