"""Counts of a client's HTTP/2 frames, however its bytes are split, and headers that end its connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.kernel.http2_frames import HEADERS_BYTES, UNSETTLED_BYTES, Counted, Frames, HeadersTooLarge

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, size: int, flags: int = 0) -> bytes:
    return size.to_bytes(3, "big") + bytes([kind, flags, 0, 0, 0, 1]) + bytes([1]) * size


@given(st.lists(st.integers(1, 40), max_size=60))
def test_the_cut_of_the_bytes_changes_nothing(cuts: list[int]) -> None:
    sent = PREFACE + frame(4, 0) + frame(1, 30) + frame(0, 2_000) + frame(1, 12) + frame(9, 12) + frame(8, 4)
    frames, calls, small = Frames(), 0, 0
    for cut in cuts:
        counted = frames.read(sent[:cut])
        sent, calls, small = sent[cut:], calls + counted.calls, small + counted.frames
    counted = frames.read(sent)
    assert Counted(calls + counted.calls, small + counted.frames) == Counted(2, 5)


def test_headers_that_are_too_large_are_found_before_they_are_whole() -> None:
    frames = Frames()
    frames.read(PREFACE + frame(1, HEADERS_BYTES) + frame(1, 10) + frame(9, HEADERS_BYTES - 10))
    with pytest.raises(HeadersTooLarge, match="the headers of a call may have at most 8192 bytes"):
        frames.read(frame(9, 1)[:9])


def test_a_client_that_does_not_acknowledge_the_settings_sends_only_so_many_headers() -> None:
    some = frame(1, 1_000) * (UNSETTLED_BYTES // 1_000)
    settled, other = Frames(), Frames()
    settled.read(PREFACE + some + frame(4, 0, 1) + some + some)
    other.read(PREFACE + some)
    with pytest.raises(HeadersTooLarge, match="without acknowledging the server's settings"):
        other.read(frame(4, 0) + frame(1, 1_000))
