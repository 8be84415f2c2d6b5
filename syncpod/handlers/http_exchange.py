"""One GET on a new connection (HTTP/1.1, RFC 9112), which reads only as much of the response as the caller wants.

Written for probes, of which a node runs thousands: a general client costs three times the CPU per probe, and decides
for itself which headers to add and which to merge. Difference: with TLS the kubelet also offers HTTP/2
(utilnet.SetTransportDefaults), so a server that speaks only HTTP/2 passes there and fails here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Final
from urllib.parse import SplitResult

from syncpod.handlers.dialing import dial, host_and_port

_BLOCK: Final = 16 * 1024
_HEAD_LIMIT: Final = 1024 * 1024
"""The largest size of a status line with its headers, including all informational responses before it, in bytes."""
_CHUNK_OVERHEAD: Final = 16 * 1024
"""How many bytes chunk headers may have beyond what their chunks need (net/http/internal, chunkedReader)."""
_INFORMATIONAL: Final = range(100, 200)
_WITHOUT_BODY: Final = (204, 304)
_LENGTH_DIGITS: Final = 19
_LONGEST: Final = (1 << 63) - 1
"""The largest body length, an int64 as in Go's client, and its number of digits."""

_Read = Callable[[], Awaitable[bytes]]
"""Returns the next bytes, b"" at the end."""
_Close = Callable[[], None]


class NotHttp(Exception):
    """The response is not HTTP; the text says what it is."""


class Response:
    """A response whose head has been read. Its body is read from the connection, which lives until :meth:`close`."""

    def __init__(self, status: int, fields: Mapping[str, str], rest: bytes, read: _Read, close: _Close) -> None:
        """`rest` are the bytes read beyond the head; `read` returns what follows."""
        self.status = status
        self.location = fields.get("location", "")
        """The Location header; "" = none."""
        self.close = close
        self._fields = fields
        self._rest = rest
        self._read = read

    async def body(self, limit: int) -> bytes:
        """Read the body's first bytes: by its length, in chunks, or until the connection ends.

        Raises :class:`NotHttp` if the body is cut off or its chunks are invalid, OSError.
        """
        if self.status in _WITHOUT_BODY or self.status == 101:
            return b""
        if self._fields.get("transfer-encoding", "").lower() == "chunked":
            return await _chunks(self._read, self._rest, limit)
        length = _length(self._fields)
        wanted, data = limit if length is None else min(limit, length), self._rest
        while len(data) < wanted and (block := await self._read()):
            data += block
        if len(data) < wanted and length is not None:
            raise NotHttp("unexpected EOF")
        return data[:wanted]


async def get(url: SplitResult, headers: Iterable[tuple[str, str]]) -> Response:
    """GET a URL with exactly these headers, in this order, repeated ones included.

    The caller closes the response. Certificates are not checked. There is no timeout here: the caller cancels. Raises
    NotConnected, :class:`NotHttp`, OSError (a connection that breaks, a server without TLS).
    """
    path = url.path or "/"
    target = f"{path}?{url.query}" if url.query else path
    lines = (f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", "")
    request = "\r\n".join(lines).encode()
    host, secure = url.hostname or "", url.scheme == "https"
    connection = await dial(host, url.port or (443 if secure else 80))
    loop = asyncio.get_running_loop()
    close: _Close = connection.close
    try:
        if secure:  # from here on the transport owns the connection, and closes it in any case
            reader, writer = await asyncio.open_connection(sock=connection, ssl=_unchecked(), server_hostname=host)
            close = partial(
                _abort, writer
            )  # keeps the writer alive: a writer that is garbage-collected closes its connection
            writer.write(request)
            return await _response(_fairly(lambda: reader.read(_BLOCK)), close)
        await loop.sock_sendall(connection, request)
        return await _response(_fairly(lambda: loop.sock_recv(connection, _BLOCK)), close)
    except BaseException:
        close()
        raise


def host_header(url: SplitResult) -> str:
    """Return the Host header for a URL: its host, and its port if the URL has one."""
    host = url.hostname or ""
    return host_and_port(host, url.port) if url.port is not None else f"[{host}]" if ":" in host else host


def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@lru_cache(maxsize=1)
def _unchecked() -> ssl.SSLContext:
    """Return a TLS context that accepts any certificate: a probe checks whether a server answers, not its identity."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _fairly(read: _Read) -> _Read:
    """Let the event loop run other tasks before each read except the first.

    A read of bytes that have already arrived does not wait. So a server that never pauses would block the loop, and not
    even a timeout would be noticed.
    """
    began = False

    async def next_block() -> bytes:
        nonlocal began
        if began:
            await asyncio.sleep(0)
        began = True
        return await read()

    return next_block


async def _response(read: _Read, close: _Close) -> Response:
    """Read the head of the response, and check that the length of its body is valid."""
    rest, room = b"", _HEAD_LIMIT
    while True:
        status, fields, used, rest = await _head(read, rest, room)
        if status not in _INFORMATIONAL or status == 101:
            break
        room -= used
    _length(fields)
    return Response(status, fields, rest, read, close)


async def _head(read: _Read, data: bytes, room: int) -> tuple[int, dict[str, str], int, bytes]:
    """Read a status line and its headers, of `room` bytes at most.

    Return the status, the headers by lower-case name, their length in bytes, and what came after. Raises NotHttp.
    """
    while (end := data.find(b"\r\n\r\n")) < 0 and (bare := data.find(b"\n\n")) < 0:
        if len(data) > room:
            raise _too_long()
        if not (block := await read()):
            raise NotHttp("EOF" if not data else f'malformed HTTP response "{_shown(data)}"')
        data += block
        if not data.startswith(b"HTTP/"[: len(data)]):
            raise NotHttp(f'malformed HTTP response "{_shown(data)}"')
    used = end + 4 if end >= 0 else bare + 2
    if used > room:
        raise _too_long()
    head, rest = data[: end if end >= 0 else bare], data[used:]
    first, *lines = head.decode("latin-1").replace("\r\n", "\n").split("\n")
    version, _, status = first.partition(" ")
    code = status.strip()[:3]
    if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdecimal():
        raise NotHttp(f'malformed HTTP response "{_shown(data)}"')
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    return int(code), fields, used, rest


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
        wrong = f'bad Content-Length "{_readable(length[:64])}"' if length else 'invalid empty Content-Length ""'
        raise NotHttp(wrong)
    return int(digits)


async def _chunks(read: _Read, data: bytes, limit: int) -> bytes:
    """Return the first bytes of a body in chunks. Raises NotHttp, also where it is mostly chunk headers."""
    body, overhead = b"", 0
    while len(body) < limit:
        while (end := data.find(b"\n")) < 0:
            data += await _more(read, len(data))
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
        data = data[end + 1 :]
        if not left:
            break
        while len(data) < min(left + 2, limit):
            data += await _more(read, 0)
        body, data = body + data[:left], data[left + 2 :]
    return body[:limit]


async def _more(read: _Read, have: int) -> bytes:
    block = await read()
    if not block or have > _BLOCK:
        raise NotHttp("unexpected EOF" if not block else "invalid byte in chunk length")
    return block


def _shown(data: bytes) -> str:
    return data.partition(b"\n")[0][:64].decode("ascii", errors="backslashreplace").strip()


def _readable(text: str) -> str:
    return text.encode("ascii", errors="backslashreplace").decode()
