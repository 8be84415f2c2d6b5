"""Forwards an upgraded connection to the runtime's streaming server: the request's head, then bytes in both directions.

Mirrors proxyStream (pkg/kubelet/server/server.go, v1.36) with apimachinery's UpgradeAwareHandler: the relay does not
interpret the protocol. If one end closes, the other end is closed once it has received everything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from syncpod.agent.background import cancel_all
from syncpod.agent.http_answers import AlreadySent
from syncpod.api.statuses import ApiError
from syncpod.streaming.connection import Connection, UpgradeRefused, requested
from syncpod.streaming.spdy import CHUNK

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 4 * 3600.0
"""Seconds without a byte after which a connection is closed: the kubelet's streamingConnectionIdleTimeout."""
_CLOSING_SECONDS: Final = 2.0
_KEPT_BACK: Final = frozenset(("host", "authorization", "origin", "cookie", "content-length", "transfer-encoding"))
"""Headers that are not forwarded to the runtime: those about the client's identity, and about a body."""
_OF_ANSWER: Final = ("x-accepted-stream-protocol-versions", "upgrade")
"""Headers of the runtime's refusal that name the supported protocols; they are forwarded to the client."""


def is_upgrade(headers: Mapping[str, str]) -> bool:
    """Say whether a request is for an upgrade to another protocol."""
    return "upgrade" in headers.get("Connection", "").lower() and bool(headers.get("Upgrade"))


async def relay(request: web.BaseRequest, url: str) -> web.StreamResponse:
    """Forward the connection of a request to the runtime's `url` until one end closes it.

    Raises ApiError if the runtime does not accept it, and OSError if the client has already disconnected.
    """
    parts = urlsplit(url)
    kept = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers]
    head = [
        f"{request.method} {requested(parts)} HTTP/1.1",
        f"Host: {parts.netloc}",
        *(f"{name}: {value}" for name, value in kept if name.lower() not in _KEPT_BACK),
    ]
    try:
        runtime, answer = await Connection.ask(url, head)
    except UpgradeRefused as refused:
        raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, f"the runtime does not stream: {refused}") from None
    try:
        if answer.code != HTTPStatus.SWITCHING_PROTOCOLS:
            return _refusal(answer.code, answer.lines, answer.text)
        await _pass(request, "\r\n".join((*answer.lines, "", "")).encode("latin-1"), runtime)
    finally:
        runtime.close()
    return AlreadySent()


def _refusal(code: int, lines: tuple[str, ...], text: str) -> web.Response:
    split = [line.partition(":") for line in lines[1:]]
    headers = [(name.strip(), value.strip()) for name, _, value in split if name.strip().lower() in _OF_ANSWER]
    answer = web.Response(status=code, text=f"{text}\n")
    for name, value in headers:
        answer.headers.add(name, value)
    return answer


async def _pass(request: web.BaseRequest, head: bytes, runtime: Connection) -> None:
    """Take the client's connection over from the HTTP server, and copy bytes in both directions."""
    transport, before = request.transport, request.protocol
    if transport is None or transport.is_closing():
        return
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    try:
        async with asyncio.timeout(IDLE_SECONDS) as idle:

            def moved() -> None:
                idle.reschedule(loop.time() + IDLE_SECONDS)

            copying = [
                asyncio.create_task(_copy(lambda: reader.read(CHUNK), runtime.write, moved)),
                asyncio.create_task(_copy(runtime.read, lambda data: _send(writer, data), moved, first=head)),
            ]
            try:
                await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancel_all(copying)
    except TimeoutError:
        log.info("a stream of %s is closed: nothing has moved for %g s", request.path, IDLE_SECONDS)
    finally:
        await _close(writer)
        before.connection_lost(None)  # the HTTP server has lost the connection, and must be notified of its end


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close the client's connection once it has received everything, or after `_CLOSING_SECONDS`."""
    writer.close()
    try:
        async with asyncio.timeout(_CLOSING_SECONDS):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


async def _copy(
    read: Callable[[], Awaitable[bytes]],
    write: Callable[[bytes], Awaitable[None]],
    moved: Callable[[], None],
    *,
    first: bytes = b"",
) -> None:
    """Copy until one end closes."""
    try:
        if first:
            await write(first)
        while data := await read():
            moved()
            await write(data)
    except OSError:
        return


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
