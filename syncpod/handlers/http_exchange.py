"""One GET on a new connection (HTTP/1.1, RFC 9112), which reads only the part of the response that the caller needs.

It is written for probes, of which a node runs thousands: a general client takes three times the CPU, and adds and
merges headers as it likes. Difference: with TLS the kubelet also offers HTTP/2 (utilnet.SetTransportDefaults), so a
server that speaks only HTTP/2 passes there and fails here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final
from urllib.parse import SplitResult

from syncpod.handlers.answer import shortened
from syncpod.handlers.dialing import dial, host_and_port
from syncpod.handlers.tls import TlsConnection
from syncpod.redaction import of_process

_BLOCK: Final = 16 * 1024
_SMALL: Final = 4 * 1024
_SMALL_READS: Final = 16
_PAUSE_SECONDS: Final = 0.02
"""Pause before each read, once `_SMALL_READS` reads have had less than `_SMALL` bytes: so a fast server of single bytes
costs only fifty reads a second."""
_HEAD_LIMIT: Final = 1024 * 1024
"""Maximum bytes of a status line with its headers, including all informational responses before it."""
_CHUNK_OVERHEAD: Final = 16 * 1024
"""Maximum excess of chunk headers, in bytes, over the size that their chunks justify (net/http/internal,
chunkedReader)."""
_INFORMATIONAL: Final = range(100, 200)
_WITHOUT_BODY: Final = (204, 304)
_END: Final = re.compile(rb"\n\r?\n")
_READ_FIELDS: Final = re.compile(rb"\n[ \t]*(content-length|location|transfer-encoding)[ \t]*:([^\n]*)", re.IGNORECASE)
"""The headers that are parsed. A head may have half a million others, which are skipped."""
_LENGTH_DIGITS: Final = 19
_LONGEST: Final = (1 << 63) - 1
"""The largest body length, an int64 as in Go's client; `_LENGTH_DIGITS` is its number of digits."""

_Read = Callable[[], Awaitable[bytes]]
"""Returns the next bytes, b"" at the end."""
_Close = Callable[[], None]


class NotHttp(Exception):
    """The response is not HTTP; the text describes it."""


class Response:
    """A response whose head has been read. Its body is read from the connection, which lives until :meth:`close`."""

    def __init__(self, status: int, fields: Mapping[str, str], rest: bytes, read: _Read, close: _Close) -> None:
        """`rest` are the bytes read beyond the head; `read` returns the following bytes."""
        self.status = status
        self.location = fields.get("location", "")
        """The Location header; "" = none."""
        self.close = close
        self._fields = fields
        self._rest = rest
        self._read = read

    async def body(self, limit: int) -> bytes:
        """Read the body's first bytes: by its length, in chunks, or until the connection ends.

        Raises OSError, and :class:`NotHttp` if the body is cut off or its chunks are invalid.
        """
        if self.status in _WITHOUT_BODY or self.status == 101:
            return b""
        if self._fields.get("transfer-encoding", "").lower() == "chunked":
            return await _chunks(self._read, self._rest, limit)
        length = _length(self._fields)
        wanted, data = limit if length is None else min(limit, length), bytearray(self._rest)
        while len(data) < wanted and (block := await self._read()):
            data += block
        if len(data) < wanted and length is not None:
            raise NotHttp("unexpected EOF")
        return bytes(data[:wanted])


async def get(url: SplitResult, headers: Iterable[tuple[str, str]], uid: str) -> Response:
    """GET a URL for the pod with this UID, with exactly these headers in this order, repetitions included.

    The caller closes the response. Certificates are not checked. There is no timeout here: the caller cancels. Raises
    NotConnected, :class:`NotHttp`, OSError (a connection that breaks, a server without TLS), NoAnswer.
    """
    path = url.path or "/"
    target = f"{path}?{url.query}" if url.query else path
    lines = (f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", "")
    request = "\r\n".join(lines).encode()
    host, secure = url.hostname or "", url.scheme == "https"
    connection = await dial(host, url.port or (443 if secure else 80), uid)
    # The connection is a plain socket, with TLS or without. Nobody else owns it, so nobody else closes it.
    loop = asyncio.get_running_loop()
    read = _paced(lambda: loop.sock_recv(connection, _BLOCK))
    try:
        if secure:
            tls = TlsConnection(host, uid, lambda data: loop.sock_sendall(connection, data), read)
            await tls.begin(request)
            read = tls.read
        else:
            await loop.sock_sendall(connection, request)
        return await _response(read, connection.close)
    except BaseException:
        connection.close()
        raise


def host_header(url: SplitResult) -> str:
    """Return the Host header for a URL: its host, and its port if the URL has one."""
    host = url.hostname or ""
    return host_and_port(host, url.port) if url.port is not None else f"[{host}]" if ":" in host else host


def _paced(read: _Read) -> _Read:
    """Wrap `read`: let other tasks run between two reads, and pause longer once a server sends in drips.

    A read of bytes that have already arrived does not wait. So a server that never pauses would block the loop, and
    even timeouts would have no effect.
    """
    began, small = False, 0

    async def next_block() -> bytes:
        nonlocal began, small
        if began:
            await asyncio.sleep(_PAUSE_SECONDS if small >= _SMALL_READS else 0)
        began = True
        block = await read()
        small += len(block) < _SMALL
        return block

    return next_block


async def _response(read: _Read, close: _Close) -> Response:
    """Read the head of the response, and check that the length of its body is valid."""
    data, room = bytearray(), _HEAD_LIMIT
    while True:
        head = await _head(read, data, room)
        status = _status(head)
        if status not in _INFORMATIONAL or status == 101:
            break
        room -= len(head)
    fields: dict[str, str] = {}
    for name, value in _READ_FIELDS.findall(head):
        fields.setdefault(name.decode().lower(), value.decode("latin-1").strip())
    _length(fields)
    return Response(status, fields, bytes(data), read, close)


async def _head(read: _Read, data: bytearray, room: int) -> bytes:
    """Read a status line and its headers, of at most `room` bytes, and remove them from `data`, the bytes read so far.

    Each byte is searched once, even if few bytes come at a time. Raises NotHttp.
    """
    looked = 0
    while (found := _END.search(data, looked)) is None:
        if len(data) > room:
            raise _too_long()
        looked = max(0, len(data) - 2)
        if not (block := await read()):
            raise NotHttp("EOF" if not data else f'malformed HTTP response "{_shown(data)}"')
        data += block
        if not data.startswith(b"HTTP/"[: len(data)]):
            raise NotHttp(f'malformed HTTP response "{_shown(data)}"')
    used = found.end()
    del found  # a match locks `data`, so its bytes could not be removed
    if used > room:
        raise _too_long()
    head = bytes(data[:used])
    del data[:used]
    return head


def _status(head: bytes) -> int:
    """Return the status in a head. Raises NotHttp."""
    version, _, status = head[: head.index(b"\n")].decode("latin-1").partition(" ")
    code = status.strip()[:3]
    if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdecimal():
        raise NotHttp(f'malformed HTTP response "{_shown(head)}"')
    return int(code)


def _too_long() -> NotHttp:
    return NotHttp(f"server response headers exceeded {_HEAD_LIMIT} bytes; aborted")


def _length(fields: Mapping[str, str]) -> int | None:
    """Return the Content-Length; None if there is none, and the body ends with the connection.

    Raises :class:`NotHttp` if it is not a number, or one that Go rejects (net/http, transfer.go, parseContentLength).
    """
    if (length := fields.get("content-length")) is None:
        return None
    digits = length.lstrip("0") or "0"
    if not (length.isascii() and length.isdecimal()) or len(digits) > _LENGTH_DIGITS or int(digits) > _LONGEST:
        shown = of_process.part(length, 0, 64).encode("ascii", errors="backslashreplace").decode()
        raise NotHttp(f'bad Content-Length "{shown}"' if length else 'invalid empty Content-Length ""')
    return int(digits)


async def _chunks(read: _Read, began: bytes, limit: int) -> bytes:
    """Return the first bytes of a body in chunks.

    Raises NotHttp, even if the body is valid but mostly chunk headers.
    """
    body, data, overhead = bytearray(), bytearray(began), 0
    while len(body) < limit:
        looked = 0
        while (end := data.find(b"\n", looked)) < 0:
            looked = len(data)
            data += await _more(read, looked)
        size = data[:end].partition(b";")[0].strip()
        try:
            left = int(size, 16)
        except ValueError:
            raise NotHttp("invalid byte in chunk length") from None
        if left < 0:
            raise NotHttp("invalid byte in chunk length")
        overhead = max(0, overhead + end + 1 + 2 - 16 - 2 * left)
        if overhead > _CHUNK_OVERHEAD:
            raise NotHttp("chunked encoding contains too much non-data")
        del data[: end + 1]
        if not left:
            break
        while len(data) < min(left + 2, limit):
            data += await _more(read, 0)
        body += data[: min(left, limit)]
        del data[: left + 2]
    return bytes(body[:limit])


async def _more(read: _Read, have: int) -> bytes:
    block = await read()
    if not block or have > _BLOCK:
        raise NotHttp("unexpected EOF" if not block else "invalid byte in chunk length")
    return block


def _shown(data: bytes | bytearray) -> str:
    line = bytes(data[:256]).partition(b"\n")[0]
    return shortened(line, 64, encoding="ascii", errors="backslashreplace").strip()
