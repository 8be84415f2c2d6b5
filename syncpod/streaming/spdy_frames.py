"""Converts bytes to SPDY/3.1 frames and frames to bytes, as Kubernetes' clients use them. Without I/O.

All numbers are big-endian. A control frame begins with a set bit, 15 bits of version and 16 of type, 8 of flags and
24 of length; a data frame with a clear bit, 31 bits of stream id, 8 of flags and 24 of length. Headers are compressed
by one zlib stream per direction for the whole life of a connection, primed with a dictionary that the protocol fixes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

VERSION: Final = 3
FIN: Final = 0x01

MAX_CONTROL_FRAME: Final = 16 * 1024
MAX_HEADER_BLOCK: Final = 64 * 1024
MAX_HEADERS: Final = 100

_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_MORE_WORDS: Final = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_CODES: Final = (
    "100 101 201 202 205 206 300 302 303 304 305 306 307 402 405 406 407 408 409 410 411 412 413 414 415 416 417 502 "
    "504 505"
)
_TEXT: Final = (
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug "
    "Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _counted(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


DICTIONARY: Final = (
    b"".join(_counted(word.encode()) for word in (*_WORDS.split(), *_MORE_WORDS))
    + _CODES.replace(" ", "").encode()
    + _TEXT.encode()
)
"""The initial dictionary of every header compressor: words with their lengths, status codes, and common values."""


class FrameError(Exception):
    """The peer has sent data that is not SPDY/3.1; nothing more on this connection can be parsed."""


class FrameType(IntEnum):
    """Types of control frames; others are ignored."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8


class ResetStatus(IntEnum):
    """Why a stream is reset."""

    PROTOCOL_ERROR = 1
    REFUSED_STREAM = 3
    INTERNAL_ERROR = 6


class GoAwayStatus(IntEnum):
    """Why a connection ends."""

    OK = 0
    PROTOCOL_ERROR = 1


@dataclass(frozen=True)
class SynStream:
    """The peer opens a stream."""

    stream_id: int
    headers: Mapping[str, str]
    """Names in lower case."""
    fin: bool


@dataclass(frozen=True)
class SynReply:
    """The peer accepts a stream that was opened to it."""

    stream_id: int


@dataclass(frozen=True)
class RstStream:
    """A stream is reset."""

    stream_id: int


@dataclass(frozen=True)
class Ping:
    """A ping, to be sent back unchanged."""

    ping_id: int


@dataclass(frozen=True)
class GoAway:
    """The peer ends the connection."""


@dataclass(frozen=True)
class Data:
    """A part of a data frame, as it arrived. Frames are not buffered, since one may be 16 MiB long."""

    stream_id: int
    data: bytes
    fin: bool
    """True if this is the last data of its stream."""


Frame = SynStream | SynReply | RstStream | Ping | GoAway | Data


class Decoder:
    """Parses the bytes of one connection into frames.

    Window updates and settings are ignored: spdystream, the library on the other side, neither sends nor obeys them. So
    only TCP has backpressure.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._headers = zlib.decompressobj(zdict=DICTIONARY)
        self._rest_of_data: tuple[int, int, bool] | None = None
        """The data frame being read: stream id, bytes left, whether it is the stream's last."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete. Raises FrameError."""
        self._buffer += data
        while True:
            if self._rest_of_data is not None:
                frame = self._data(*self._rest_of_data)
                if frame is None:
                    return
                yield frame
                continue
            if len(self._buffer) < 8:
                return
            first, second = struct.unpack_from(">II", self._buffer)
            flags, length = second >> 24, second & 0xFFFFFF
            if first < 0x80000000:
                del self._buffer[:8]
                self._rest_of_data = (first, length, bool(flags & FIN))
                continue
            if length > MAX_CONTROL_FRAME:
                raise FrameError(f"a control frame of {length} bytes; the limit is {MAX_CONTROL_FRAME}")
            if len(self._buffer) < 8 + length:
                return
            payload = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            if (first >> 16) & 0x7FFF != VERSION:
                raise FrameError(f"a frame of SPDY version {(first >> 16) & 0x7FFF}; only 3 is supported")
            try:
                control = self._control(first & 0xFFFF, flags, payload)
            except (struct.error, zlib.error, UnicodeDecodeError) as error:
                raise FrameError(f"a broken control frame of type {first & 0xFFFF}: {error}") from error
            if control is not None:
                yield control

    def _data(self, stream_id: int, remaining: int, fin: bool) -> Data | None:
        piece = bytes(self._buffer[:remaining])
        if remaining and not piece:
            return None
        del self._buffer[: len(piece)]
        remaining -= len(piece)
        self._rest_of_data = (stream_id, remaining, fin) if remaining else None
        return Data(stream_id, piece, fin and not remaining)

    def _control(self, kind: int, flags: int, payload: bytes) -> Frame | None:
        match kind:
            case FrameType.SYN_STREAM:
                (stream_id,) = struct.unpack_from(">I", payload)
                headers = self._header_block(payload[10:])
                return SynStream(stream_id & 0x7FFFFFFF, headers, bool(flags & FIN))
            case FrameType.RST_STREAM:
                stream_id, _ = struct.unpack(">II", payload)
                return RstStream(stream_id & 0x7FFFFFFF)
            case FrameType.PING:
                (ping_id,) = struct.unpack(">I", payload)
                return Ping(ping_id)
            case FrameType.GOAWAY:
                return GoAway()
            case FrameType.SYN_REPLY:
                (stream_id,) = struct.unpack_from(">I", payload)
                self._header_block(payload[4:])
                return SynReply(stream_id & 0x7FFFFFFF)
            case FrameType.HEADERS:  # unused, but must be decompressed to keep the compressor's state in step
                self._header_block(payload[4:])
        return None

    def _header_block(self, block: bytes) -> dict[str, str]:
        text = self._headers.decompress(block, MAX_HEADER_BLOCK)
        if self._headers.unconsumed_tail:
            raise FrameError(f"more than {MAX_HEADER_BLOCK} bytes of headers")
        (count,) = struct.unpack_from(">I", text)
        if count > MAX_HEADERS:
            raise FrameError(f"{count} headers; the limit is {MAX_HEADERS}")
        headers: dict[str, str] = {}
        position = 4
        for _ in range(count):
            name, position = _counted_at(text, position)
            value, position = _counted_at(text, position)
            headers[name.lower()] = value
        return headers


def _counted_at(text: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">I", text, position)
    end = position + 4 + length
    if end > len(text):
        raise FrameError("a header is longer than its block")
    return text[position + 4 : end].decode(), end


class Encoder:
    """Encodes the frames that one side sends on a connection. Frames must be sent in the order of the calls."""

    def __init__(self) -> None:
        self._headers = zlib.compressobj(zdict=DICTIONARY)

    def syn_stream(self, stream_id: int, headers: Mapping[str, str]) -> bytes:
        """Open a stream; header names are in lower case."""
        return _control_frame(FrameType.SYN_STREAM, struct.pack(">IIH", stream_id, 0, 0) + self._header_block(headers))

    def syn_reply(self, stream_id: int) -> bytes:
        """Accept a stream, without headers."""
        return _control_frame(FrameType.SYN_REPLY, struct.pack(">I", stream_id) + self._header_block({}))

    def _header_block(self, headers: Mapping[str, str]) -> bytes:
        text = struct.pack(">I", len(headers)) + b"".join(
            _counted(part.encode()) for header in headers.items() for part in header
        )
        return self._headers.compress(text) + self._headers.flush(zlib.Z_SYNC_FLUSH)

    def rst_stream(self, stream_id: int, status: ResetStatus) -> bytes:
        """Reset a stream."""
        return _control_frame(FrameType.RST_STREAM, struct.pack(">II", stream_id, status))

    def ping(self, ping_id: int) -> bytes:
        """Send a ping, or answer one."""
        return _control_frame(FrameType.PING, struct.pack(">I", ping_id))

    def no_settings(self) -> bytes:
        """Return an empty SETTINGS frame. It keeps a connection alive and, unlike a ping, needs no answer."""
        return _control_frame(FrameType.SETTINGS, struct.pack(">I", 0))

    def go_away(self, last_stream_id: int, status: GoAwayStatus) -> bytes:
        """Announce the end of the connection, with the peer's last stream that was processed."""
        return _control_frame(FrameType.GOAWAY, struct.pack(">II", last_stream_id, status))

    def data(self, stream_id: int, data: bytes, *, fin: bool = False) -> bytes:
        """Send bytes of a stream, fewer than 2^24; with `fin` the last ones."""
        return struct.pack(">II", stream_id, (FIN if fin else 0) << 24 | len(data)) + data


def _control_frame(kind: FrameType, payload: bytes) -> bytes:
    return struct.pack(">HHI", 0x8000 | VERSION, kind, len(payload)) + payload
