"""The CRI log format."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.node.log_lines import LineJoiner, LogText, count_lines, parse_record, starts_of_last_lines

STAMP = "2026-01-31T12:00:00.123456789Z"


def record(text: str, *, stream: str = "stdout", tag: str = "F", stamp: str = STAMP) -> bytes:
    return f"{stamp} {stream} {tag} {text}\n".encode()


def texts(data: bytes) -> list[str]:
    joiner = LineJoiner()
    return [line.text.decode() for line in (*joiner.feed(data), *joiner.flush())]


def test_a_record_has_time_stream_tag_and_text() -> None:
    assert parse_record(record("a b  c")[:-1]) == (STAMP, "stdout", False, b"a b  c")
    assert parse_record(record("x", tag="P:more")[:-1]) == (STAMP, "stdout", True, b"x")
    assert parse_record(record("")[:-1]) == (STAMP, "stdout", False, b"")


def test_a_line_that_is_not_a_record_is_skipped() -> None:
    for torn in (b"", b"2026", b"2026-01-31T12:00:00Z stdout", b"a b c d"):
        assert parse_record(torn) is None
    assert texts(b"torn\n" + record("whole")) == ["whole"]


def test_the_parts_of_a_long_line_are_joined_for_each_stream() -> None:
    data = (
        record("begin ", tag="P", stamp="1")
        + record("error ", tag="P", stream="stderr")
        + record("end", stamp="2")
        + record("said", stream="stderr")
    )
    assert texts(data) == ["begin end", "error said"]
    assert next(iter(LineJoiner().feed(data))).stamp == "1"


def test_a_last_line_without_newline_is_kept() -> None:
    assert texts(record("one") + record("prompt> ", tag="P")) == ["one", "prompt> "]


LINES = st.lists(st.tuples(st.text("ab ", max_size=5), st.integers(min_value=0, max_value=3)), max_size=12)


def written(lines: list[tuple[str, int]]) -> bytes:
    """A log in which each line is preceded by this many partial lines."""
    return b"".join(b"".join(record("p", tag="P") for _ in range(parts)) + record(text) for text, parts in lines)


@given(LINES, st.integers(min_value=1, max_value=40))
def test_lines_do_not_depend_on_the_read_size(lines: list[tuple[str, int]], size: int) -> None:
    data = written(lines)
    joiner = LineJoiner()
    found = [line.text.decode() for at in range(0, len(data), size) for line in joiner.feed(data[at : at + size])]
    assert found == ["p" * parts + text for text, parts in lines]


@given(LINES, st.integers(min_value=1, max_value=40), st.booleans())
def test_block_and_line_reading_print_the_same(lines: list[tuple[str, int]], size: int, timestamps: bool) -> None:
    """Row 114: whole blocks are converted at once, with the same output."""
    data = written(lines) + record("more", tag="P")
    text = LogText(timestamps=timestamps, head=b"[a\\1] ")
    printed = b"".join(text.feed(data[at : at + size]) for at in range(0, len(data), size)) + text.flush()
    joiner = LineJoiner()
    expected = [
        f"[a\\1] {line.stamp + ' ' if timestamps else ''}{line.text.decode()}\n"
        for line in (*joiner.feed(data), *joiner.flush())
    ]
    assert printed.decode() == "".join(expected)
    assert count_lines([data], with_unfinished=False) == len(lines)
    assert count_lines([data], with_unfinished=True) == len(lines) + 1


def test_the_byte_limit_counts_output_and_timestamps() -> None:
    """Row 114: limitBytes cuts within a line, times and line ends included; a prefix is not the log's."""
    data = record("one") + record("two") + record("three")
    text = LogText(head=b"> ", limit_bytes=6)
    assert (text.feed(data), text.full) == (b"> one\n> tw", True)
    stamped = LogText(timestamps=True, limit_bytes=len(STAMP) + 3)
    assert stamped.feed(data) == f"{STAMP} on".encode()
    assert LogText(limit_bytes=100).feed(data) == b"one\ntwo\nthree\n"


@given(
    LINES, st.integers(min_value=0, max_value=3), st.integers(min_value=0, max_value=14), st.integers(1, max_value=200)
)
def test_the_last_lines_are_found_from_the_end(
    lines: list[tuple[str, int]], unfinished: int, count: int, size: int
) -> None:
    """Row 114: what a container ends with and no line end, in however many parts, is a line; a torn write is none."""
    data = written(lines) + record("p", tag="P") * unfinished

    def blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
        end = len(data)
        while end > 0:
            start = max(0, end - size)
            yield start, data[start:end]
            end = start

    torn = data + record("torn")[:-1]
    expected = texts(data)[::-1][:count][::-1]
    assert texts(data[starts_of_last_lines(blocks(data), count, with_unfinished=True) :]) == expected
    assert texts(torn[starts_of_last_lines(blocks(torn), count, with_unfinished=True) :]) == expected
    if not unfinished:
        assert texts(data[starts_of_last_lines(blocks(data), count, with_unfinished=False) :]) == expected


def test_an_endless_line_is_printed_in_pieces() -> None:
    part = record("x" * 16_384, tag="P")
    text = LogText(timestamps=True, head=b"[web] ")
    tracemalloc.start()
    try:
        printed = hashlib.sha256()
        for _ in range(512):
            printed.update(text.feed(part))
        assert tracemalloc.get_traced_memory()[1] < 6 * 1024**2, "of 8 MiB"
    finally:
        tracemalloc.stop()
    printed.update(text.flush())
    assert printed.digest() == hashlib.sha256(f"[web] {STAMP} ".encode() + b"x" * 16_384 * 512 + b"\n").digest()
    assert count_lines([part] * 100, with_unfinished=True) == 1


def test_data_without_newlines_is_dropped() -> None:
    """For example, data that another program wrote into the log file."""
    text, block = LogText(), bytes(256 * 1024)
    tracemalloc.start()
    try:
        assert b"".join(text.feed(block) for _ in range(32)) == b""
        assert tracemalloc.get_traced_memory()[1] < 6 * 1024**2, "of 8 MiB"
        lost = [(at * len(block), block) for at in reversed(range(32))]
        assert starts_of_last_lines(iter(lost), 5, with_unfinished=True) == 0
        assert tracemalloc.get_traced_memory()[1] < 6 * 1024**2, "of 8 MiB"
    finally:
        tracemalloc.stop()
    assert text.feed(b"rest of it\n" + record("whole")) == b"whole\n"


def at(second: int, text: str, *, fraction: str = "", zone: str = "Z") -> bytes:
    return record(text, stamp=f"2026-01-31T12:00:{second:02}{fraction}{zone}")


SINCE = datetime(2026, 1, 31, 12, 0, 30, 500_000, tzinfo=UTC)


def since(*lines: bytes, blocks: int = 1) -> list[str]:
    """Print lines since half past, from a log that is read in this many blocks."""
    text, data = LogText(since=SINCE), b"".join(lines)
    size = -(-len(data) // blocks) or 1
    printed = b"".join(text.feed(data[begin : begin + size]) for begin in range(0, len(data), size)) + text.flush()
    return printed.decode().split()


@pytest.mark.parametrize("blocks", [1, 2, 50])
def test_each_line_is_compared_with_the_time_asked_for(blocks: int) -> None:
    """Row 114: a clock can be set back, and a runtime copies two streams."""
    lines = (at(10, "old"), at(40, "new"), at(20, "set-back"), at(59, "newer"), at(30, "just-old", fraction=".4"))
    assert since(*lines, at(30, "just-new", fraction=".5"), blocks=blocks) == ["new", "newer", "just-new"]


def test_a_time_zone_counts() -> None:
    assert since(at(31, "earlier", zone="+01:00"), at(29, "later", zone="-01:00")) == ["later"]


SECONDS = st.lists(st.tuples(st.integers(28, 33), st.sampled_from(["", ".4", ".50", ".499999999"])), max_size=12)


@given(SECONDS, st.integers(min_value=1, max_value=9))
def test_block_and_line_reading_print_the_same_lines_since_a_time(times: list[tuple[int, str]], blocks: int) -> None:
    lines = [at(second, f"{second}{fraction}", fraction=fraction) for second, fraction in times]
    is_new = [second > 30 or (second == 30 and fraction == ".50") for second, fraction in times]
    expected = [f"{second}{fraction}" for (second, fraction), new in zip(times, is_new, strict=True) if new]
    assert since(*lines, blocks=blocks) == expected


def test_a_line_whose_time_is_none_is_printed() -> None:
    assert since(at(10, "old"), record("odd", stamp="soon"), at(40, "new")) == ["odd", "new"]
