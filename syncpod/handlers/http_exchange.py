"""One GET over a connection of its own (HTTP/1.1, RFC 9112), and as much of the answer as somebody reads.

Written for probes, of which a node asks thousands: a general client costs three times the CPU per question, and decides
for itself which headers to add and which to merge. One difference from the kubelet's: with TLS that offers HTTP/2, too
(utilnet.SetTransportDefaults), and a server that speaks nothing else is well there and has failed here.
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
"""Bytes of a status line with its headers: Go's client reads as much."""
_INFORMATIONAL: Final = range(100, 200)
_WITHOUT_BODY: Final = (204, 304)
_LENGTH_DIGITS: Final = 19
_LONGEST: Final = (1 << 63) - 1
"""Of a body's length: the largest int64, in which Go's client holds it, and its digits."""

_Read = Callable[[], Awaitable[bytes]]
"""Returns what has come, b"" at the end."""
_Close = Callable[[], None]


class NotHttp(Exception):
    """What was answered is no HTTP; the text says what it is."""


class Response:
    """An answer whose head has come; its body is read from the connection, which lives until :meth:`close`."""

    def __init__(self, status: int, fields: Mapping[str, str], rest: bytes, read: _Read, close: _Close) -> None:
        """Of an answer with these headers, `rest` has come beyond the head, and `read` returns what follows."""
        self.status = status
        self.location = fields.get("location", "")
        """Where it sends who asks; "" = nowhere."""
        self.close = close
        self._fields = fields
        self._rest = rest
        self._read = read

    async def body(self, limit: int) -> bytes:
        """Read the body's first bytes: of a given length, in chunks, or until the connection ends.

        Raises :class:`NotHttp` where it breaks off or its chunks are none, OSError.
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
    """GET a URL with exactly these headers, in their order, a repeated one as often as it is given.

    Who is given the answer closes it. Certificates are not checked. There is no timeout here: the caller cancels.
    Raises NotConnected, :class:`NotHttp`, OSError (a connection that breaks off, TLS that is none).
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
        if secure:  # from here on the connection is the transport's, which closes it whatever happens
            reader, writer = await asyncio.open_connection(sock=connection, ssl=_unchecked(), server_hostname=host)
            close = partial(_abort, writer)  # and so it lives as long: a writer that is let go of closes its connection
            writer.write(request)
            return await _response(lambda: reader.read(_BLOCK), close)
        await loop.sock_sendall(connection, request)
        return await _response(lambda: loop.sock_recv(connection, _BLOCK), close)
    except BaseException:
        close()
        raise


def host_header(url: SplitResult) -> str:
    """Return what names the server of a URL, with its port if the URL has one."""
    host = url.hostname or ""
    return host_and_port(host, url.port) if url.port is not None else f"[{host}]" if ":" in host else host


def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@lru_cache(maxsize=1)
def _unchecked() -> ssl.SSLContext:
    """Return what accepts any certificate: a probe asks whether something answers, not who it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _response(read: _Read, close: _Close) -> Response:
    """Read until the head of the answer has come, and see that the length of its body can be told."""
    rest = b""
    while True:
        status, fields, rest = await _head(read, rest)
        if status not in _INFORMATIONAL or status == 101:
            break
    _length(fields)
    return Response(status, fields, rest, read, close)


async def _head(read: _Read, data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Read a status line and its headers; return the status, the headers by lower-case name, and what came after."""
    while (end := data.find(b"\r\n\r\n")) < 0 and (bare := data.find(b"\n\n")) < 0:
        if len(data) > _HEAD_LIMIT:
            raise NotHttp(f"server response headers exceeded {_HEAD_LIMIT} bytes; aborted")
        if not (block := await read()):
            raise NotHttp("EOF" if not data else f'malformed HTTP response "{_shown(data)}"')
        data += block
        if not data.startswith(b"HTTP/"[: len(data)]):
            raise NotHttp(f'malformed HTTP response "{_shown(data)}"')
    head, rest = (data[:end], data[end + 4 :]) if end >= 0 else (data[:bare], data[bare + 2 :])
    first, *lines = head.decode("latin-1").replace("\r\n", "\n").split("\n")
    version, _, status = first.partition(" ")
    code = status.strip()[:3]
    if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdecimal():
        raise NotHttp(f'malformed HTTP response "{_shown(data)}"')
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    return int(code), fields, rest


def _length(fields: Mapping[str, str]) -> int | None:
    """Return the length that the body is said to have; None: until the connection ends.

    Raises :class:`NotHttp` where it is no number, or none that Go holds (net/http, transfer.go, parseContentLength).
    """
    if (length := fields.get("content-length")) is None:
        return None
    digits = length.lstrip("0") or "0"
    if not (length.isascii() and length.isdecimal()) or len(digits) > _LENGTH_DIGITS or int(digits) > _LONGEST:
        wrong = f'bad Content-Length "{_readable(length[:64])}"' if length else 'invalid empty Content-Length ""'
        raise NotHttp(wrong)
    return int(digits)


async def _chunks(read: _Read, data: bytes, limit: int) -> bytes:
    body = b""
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
