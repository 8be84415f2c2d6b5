"""SPDY/3.1 frames, byte by byte."""

from __future__ import annotations

import hashlib
import itertools
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.streaming.spdy_frames import (
    DICTIONARY,
    MAX_CONTROL_FRAME,
    Data,
    Decoder,
    Encoder,
    Frame,
    FrameError,
    GoAway,
    Ping,
    RstStream,
    SynReply,
    SynStream,
)
from tests.runtime.spdy_client import GOAWAY, PING, RST_STREAM, SETTINGS, SYN_STREAM, Headers, control


def decoded(*pieces: bytes) -> list[Frame]:
    decoder = Decoder()
    return [frame for piece in pieces for frame in decoder.feed(piece)]


def whole(frames: list[Frame]) -> list[Frame]:
    """Join consecutive parts of data frames on the same stream."""
    together: list[Frame] = []
    for frame in frames:
        last = together[-1] if together else None
        if isinstance(frame, Data) and isinstance(last, Data) and last.stream_id == frame.stream_id and not last.fin:
            together[-1] = Data(frame.stream_id, last.data + frame.data, frame.fin)
        else:
            together.append(frame)
    return together


def conversation() -> tuple[bytes, list[Frame]]:
    headers = Headers()
    sent = b"".join(
        [
            headers.syn_stream(1, {"streamtype": "error"}),
            headers.syn_stream(3, {"streamtype": "data", "port": "80", "requestid": "0"}, fin=True),
            struct.pack(">II", 1, 5) + b"hello",
            control(SETTINGS, struct.pack(">I", 0)),
            control(99, b"of another time"),
            control(PING, struct.pack(">I", 7)),
            struct.pack(">II", 1, 1 << 24),
            control(RST_STREAM, struct.pack(">II", 3, 5)),
            control(GOAWAY, struct.pack(">II", 0, 0)),
        ]
    )
    return sent, [
        SynStream(1, {"streamtype": "error"}, fin=False),
        SynStream(3, {"streamtype": "data", "port": "80", "requestid": "0"}, fin=True),
        Data(1, b"hello", fin=False),
        Ping(7),
        Data(1, b"", fin=True),
        RstStream(3),
        GoAway(),
    ]


def test_the_compression_dictionary_is_that_of_spdy_3() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2  # what every SPDY/3 compressor names in its first bytes
    assert hashlib.sha256(DICTIONARY).hexdigest().startswith("51d27341373f923f")


@given(st.lists(st.integers(1, 60)))
def test_frames_are_decoded_alike_however_their_bytes_are_split(cuts: list[int]) -> None:
    sent, expected = conversation()
    ends = [0, *itertools.takewhile(lambda end: end < len(sent), itertools.accumulate(cuts)), len(sent)]
    pieces = [sent[start:end] for start, end in itertools.pairwise(ends)]
    assert whole(decoded(*pieces)) == expected


def test_a_long_data_frame_is_passed_on_as_it_comes() -> None:
    decoder = Decoder()
    assert list(decoder.feed(struct.pack(">II", 5, 1 << 24 | 0xFFFFFF) + b"first")) == [Data(5, b"first", fin=False)]
    assert list(decoder.feed(b"second")) == [Data(5, b"second", fin=False)]


@given(st.lists(st.binary(max_size=200)))
def test_any_input_is_decoded_or_raises_an_error(pieces: list[bytes]) -> None:
    try:
        decoded(*pieces)
    except FrameError as error:
        assert str(error)


@given(st.integers(0, 0xFFFF), st.integers(0, 255), st.binary(max_size=100))
def test_a_broken_control_frame_is_an_error_or_nothing(kind: int, flags: int, payload: bytes) -> None:
    try:
        frames = decoded(control(kind, payload, flags=flags))
    except FrameError:
        return
    assert len(frames) <= 1


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (control(PING, b"\0\0\0\1", version=2), "version 2"),
        (control(SYN_STREAM, bytes(MAX_CONTROL_FRAME + 1)), "the limit is"),
        (control(SYN_STREAM, bytes(10) + b"no zlib"), "broken control frame"),
        (Headers().syn_stream(1, {"a": "x" * 1_000_000}), "bytes of headers"),
        (Headers().syn_stream(1, {f"h{n}": "" for n in range(200)}), "200 headers"),
    ],
)
def test_a_frame_that_is_too_large_is_refused(sent: bytes, said: str) -> None:
    with pytest.raises(FrameError, match=said):
        decoded(sent)


def test_what_a_server_encodes_a_client_decodes() -> None:
    encoder, inflate = Encoder(), zlib.decompressobj(zdict=DICTIONARY)
    for stream_id in (1, 3):
        frame = encoder.syn_reply(stream_id)
        kind, length, replied = struct.unpack(">III", frame[:12])
        assert (kind, length, replied) == (0x80030002, len(frame) - 8, stream_id)
        assert inflate.decompress(frame[12:]) == bytes(4)  # no headers
    assert encoder.data(3, b"abc", fin=True) == b"\0\0\0\3\1\0\0\3abc"
    assert encoder.ping(9) == b"\x80\3\0\6\0\0\0\4\0\0\0\x09"


def test_what_a_client_encodes_a_server_decodes() -> None:
    inflate = zlib.decompressobj(zdict=DICTIONARY)
    frame = Encoder().syn_stream(5, {"streamtype": "error"})
    kind, length, opened, beside, priority = struct.unpack(">IIIIH", frame[:18])
    assert (kind, length, opened, beside, priority) == (0x80030001, len(frame) - 8, 5, 0, 0)
    assert inflate.decompress(frame[18:]) == b"\0\0\0\1\0\0\0\x0astreamtype\0\0\0\5error"


@given(st.lists(st.dictionaries(st.text("abc-", min_size=1, max_size=9), st.text(max_size=40), max_size=5), max_size=6))
def test_any_frame_encoded_by_one_end_is_decoded_by_the_other(several: list[dict[str, str]]) -> None:
    ours, theirs = Encoder(), Encoder()
    opened = b"".join(ours.syn_stream(2 * number + 1, headers) for number, headers in enumerate(several))
    assert decoded(opened) == [SynStream(2 * number + 1, each, fin=False) for number, each in enumerate(several)]
    taken = b"".join(theirs.syn_reply(2 * number + 1) for number in range(len(several)))
    assert decoded(taken) == [SynReply(2 * number + 1) for number in range(len(several))]
