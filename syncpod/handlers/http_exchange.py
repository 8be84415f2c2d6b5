"""One GET over a connection of its own (HTTP/1.1, RFC 9112), and as much of the answer as somebody reads.

Written for probes, of which a node asks thousands: a general client costs three times the CPU per question, and decides
for itself which headers to add and which to merge.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult

from syncpod.handlers.dialing import dial, host_and_port

_BLOCK: Final = 16 * 1024
_HEAD_LIMIT: Final = 1024 * 1024
"""Bytes of a status line with its headers: Go's client reads as much."""
_INFORMATIONAL: Final = range(100, 200)
_WITHOUT_BODY: Final = (204, 304)
_LENGTH_DIGITS: Final = 19
"""Of a body's length: those of the largest int64, in which Go's client holds it."""

_Read = Callable[[], Awaitable[bytes]]
"""Returns what has come, b"" at the end."""


class NotHttp(Exception):
    """What was answered is no HTTP; the text says what it is."""


@dataclass(frozen=True)
class Response:
    """What was answered."""

    status: int
    location: str
    """Where it sends who asks; "" = nowhere."""
    body: bytes
    """Its first bytes, as many as were asked for."""


async def get(url: SplitResult, headers: Iterable[tuple[str, str]], body_limit: int) -> Response:
    """GET a URL with exactly these headers, in their order, a repeated one as often as it is given.

    Certificates are not checked. There is no timeout here: the caller cancels. Raises NotConnected, :class:`NotHttp`,
    OSError (a connection that breaks off, TLS that is none).
    """
    path = url.path or "/"
    target = f"{path}?{url.query}" if url.query else path
    lines = (f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", "")
    request = "\r\n".join(lines).encode()
    host, secure = url.hostname or "", url.scheme == "https"
    connection = await dial(host, url.port or (443 if secure else 80))
    if secure:  # from here on the connection is the transport's, which closes it whatever happens
        reader, writer = await asyncio.open_connection(sock=connection, ssl=_unchecked(), server_hostname=host)
        try:
            writer.write(request)
            return await _response(lambda: reader.read(_BLOCK), body_limit)
        finally:
            writer.transport.abort()
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(connection, request)
        return await _response(lambda: loop.sock_recv(connection, _BLOCK), body_limit)
    finally:
        connection.close()


def host_header(url: SplitResult) -> str:
    """Return what names the server of a URL, with its port if the URL has one."""
    host = url.hostname or ""
    return host_and_port(host, url.port) if url.port is not None else f"[{host}]" if ":" in host else host


@lru_cache(maxsize=1)
def _unchecked() -> ssl.SSLContext:
    """Return what accepts any certificate: a probe asks whether something answers, not who it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _response(read: _Read, body_limit: int) -> Response:
    rest = b""
    while True:
        status, fields, rest = await _head(read, rest)
        if status not in _INFORMATIONAL or status == 101:
            break
    body = b"" if status in _WITHOUT_BODY or status == 101 else await _body(read, rest, fields, body_limit)
    return Response(status, fields.get("location", ""), body)


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


async def _body(read: _Read, data: bytes, fields: dict[str, str], limit: int) -> bytes:
    """Return the first bytes of the body: of a given length, in chunks, or until the connection ends."""
    if fields.get("transfer-encoding", "").lower() == "chunked":
        return await _chunks(read, data, limit)
    length = fields.get("content-length", "")
    given = length.isdecimal()
    digits = length.lstrip("0")
    if given and len(digits) > _LENGTH_DIGITS:
        raise NotHttp(f'bad Content-Length "{length[:64]}"')
    wanted = min(limit, int(digits or "0")) if given else limit
    while len(data) < wanted and (block := await read()):
        data += block
    if len(data) < wanted and given:
        raise NotHttp("unexpected EOF")
    return data[:wanted]


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
