"""Measures the bytes that a client sends over HTTP/2 before a server reads them, for the limits that gRPC lacks.

gRPC limits the headers of a call, but only once the client has acknowledged the server's settings. A client that never
does can have 8 KB of headers unpacked to 700 KB, again and again. gRPC also keeps a connection whose calls it refuses.
So the bytes of clients that may be hostile are measured first: by :class:`Frames` for each connection, and by a
:class:`~syncpod.kernel.callers.Budget` of calls and frames.
"""

from __future__ import annotations

from typing import Final, NamedTuple

HEADERS_BYTES: Final = 8 * 2**10
"""Maximum bytes of one call's headers as they are sent. The Temporal SDK sends less than one KiB."""
UNSETTLED_BYTES: Final = 32 * 2**10
"""Maximum bytes of headers before the client has acknowledged the server's settings. A worker that reconnects sends all
its polls before it receives the settings."""
SETTINGS_SECONDS: Final = 10
"""Seconds within which a client must acknowledge the settings."""
GRPC_OPTIONS: Final = (("grpc.http2.settings_timeout", SETTINGS_SECONDS * 1_000),)
"""Options of a gRPC server. Its own limit for unpacked headers is 16 KiB, once the settings are acknowledged."""
_PREFACE: Final = 24
_HEAD: Final = 9
_SMALL: Final = 2**10
_HEADERS, _SETTINGS, _CONTINUATION = 1, 4, 9
_ACKNOWLEDGED: Final = 1


class HeadersTooLarge(Exception):
    """The headers of a call, or of all calls before the settings are acknowledged, are too large."""


class Counted(NamedTuple):
    """The number of calls and frames that begin in some bytes of a connection."""

    calls: int
    """Calls that begin."""
    frames: int
    """Frames of less than one KiB. Larger frames are limited by their size."""


class Frames:
    """Parses one connection, from the first byte that its client sends."""

    def __init__(self) -> None:
        self._skip = _PREFACE
        self._head = b""
        self._headers = 0
        """Bytes of the headers that are being sent."""
        self._unsettled: int | None = 0
        """Bytes of all headers so far; None once the settings are acknowledged."""

    def read(self, data: bytes) -> Counted:
        """Count the calls and frames in the next bytes. Raises HeadersTooLarge."""
        calls = frames = at = 0
        while at < len(data):
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip, at = self._skip - step, at + step
                continue
            part = data[at : at + _HEAD - len(self._head)]
            self._head, at = self._head + part, at + len(part)
            if len(self._head) < _HEAD:
                break
            size, kind, flags = int.from_bytes(self._head[:3], "big"), self._head[3], self._head[4]
            self._skip, self._head = size, b""
            calls, frames = calls + (kind == _HEADERS), frames + (size < _SMALL)
            if kind in (_HEADERS, _CONTINUATION):
                self._note_headers(size, is_new=kind == _HEADERS)
            elif kind == _SETTINGS and flags & _ACKNOWLEDGED:
                self._unsettled = None
        return Counted(calls, frames)

    def _note_headers(self, size: int, *, is_new: bool) -> None:
        self._headers = size if is_new else self._headers + size
        if self._headers > HEADERS_BYTES:
            raise HeadersTooLarge(f"the headers of a call may have at most {HEADERS_BYTES} bytes")
        if self._unsettled is not None:
            self._unsettled += size
            if self._unsettled > UNSETTLED_BYTES:
                raise HeadersTooLarge("the client sends further calls without acknowledging the server's settings")
