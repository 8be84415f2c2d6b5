"""Forwards connections to a sandbox's ports, for SPDY clients and for clients of a WebSocket's channels."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from syncpod.runtime.streaming.channels import Channels, Dialect, part
from syncpod.runtime.streaming.spdy_session import ServerSession
from syncpod.runtime.streaming.websocket import WebSocket
from syncpod.runtime.streaming.wire import Wire, deliver
from syncpod.streaming.pipe import Pipe
from syncpod.streaming.spdy import CHUNK, SpdyStream

logger = logging.getLogger(__name__)

Connect = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Opens a connection to a port. Raises OSError."""

SPDY_PROTOCOLS: Final = ("portforward.k8s.io",)
TUNNEL_PREFIX: Final = "SPDY/3.1+"
"""Prefix of a protocol's name if SPDY runs within a WebSocket."""
CHANNEL_DIALECTS: Final = {
    "v4.channel.k8s.io": Dialect(),
    "v4.base64.channel.k8s.io": Dialect(base64=True),
}
PAIR_SECONDS: Final = 30.0
"""Seconds within which a client must open both streams of one connection."""


class ForwardedStream(Protocol):
    """The client's side of one forwarded connection."""

    @property
    def input(self) -> Pipe:
        """The client's data."""

    @property
    def reset(self) -> asyncio.Event:
        """Set once the client has abandoned the connection."""

    async def write(self, data: bytes) -> None:
        """Send, waiting while the client does not read. Raises ConnectionError once the client has disconnected."""

    async def finish(self) -> None:
        """Signal the end of the port's data to the client. Raises ConnectionError once the client has disconnected."""

    async def abort(self) -> None:
        """Signal a broken connection to the client. Raises ConnectionError once the client has disconnected."""


async def forward(connect: Connect, port: int, stream: ForwardedStream) -> str:
    """Connect to a port and pass bytes both ways until both sides have ended; return why connecting failed, else "".

    Either side may end first; its end is passed on to the other side, which may still send. A broken connection is
    aborted and not reported as a failure, because the client would then give up all its connections.
    """
    try:
        reader, writer = await connect(port)
    except OSError as error:
        return f"cannot connect to port {port}: {os.strerror(error.errno) if error.errno else error}"
    passing = [
        asyncio.create_task(_from_port(reader, stream)),
        asyncio.create_task(_to_port(stream.input, writer)),
    ]
    resetting = asyncio.create_task(stream.reset.wait())
    both = asyncio.gather(*passing)
    try:
        ends: set[asyncio.Future[Any]] = {both, resetting}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if both.done():
            both.result()
    except OSError:
        with contextlib.suppress(ConnectionError):
            await stream.abort()
    finally:
        for task in (both, resetting):
            task.cancel()
        await asyncio.gather(both, resetting, *passing, return_exceptions=True)
        if stream.reset.is_set():
            writer.transport.abort()
        else:
            writer.close()
    return ""


async def _from_port(reader: asyncio.StreamReader, stream: ForwardedStream) -> None:
    while data := await reader.read(CHUNK):
        await stream.write(data)
    await stream.finish()


async def _to_port(source: Pipe, writer: asyncio.StreamWriter) -> None:
    while data := await source.get():
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


class _Pair:
    """The two streams of one forwarded connection."""

    def __init__(self) -> None:
        self.streams: dict[str, SpdyStream] = {}
        self.complete = asyncio.Event()


class _Pairs:
    """Pairs the streams that a client opens: data and error, with the same request id and port."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._incomplete: dict[str, _Pair] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, stream: SpdyStream) -> bool:
        """Accept a stream of the client if it is half of a connection; the first half starts the forwarding."""
        kind, port = stream.headers.get("streamtype", ""), _port(stream.headers.get("port", ""))
        if kind not in ("data", "error") or port is None:
            return False
        # Clients without ids open the error stream and right afterwards the data stream.
        request = stream.headers.get("requestid") or str(stream.id if kind == "error" else stream.id - 2)
        pair = self._incomplete.get(request)
        if pair is None:
            pair = self._incomplete[request] = _Pair()
            task = asyncio.create_task(self._serve(request, pair, port))
            self._tasks.add(task)
            task.add_done_callback(self._done)
        elif kind in pair.streams:
            return False
        pair.streams[kind] = stream
        if len(pair.streams) == 2:
            del self._incomplete[request]
            pair.complete.set()
        return True

    async def _serve(self, request: str, pair: _Pair, port: int) -> None:
        try:
            try:
                async with asyncio.timeout(PAIR_SECONDS):
                    await pair.complete.wait()
            except TimeoutError:
                del self._incomplete[request]
                for stream in pair.streams.values():
                    await stream.abort()
                return
            data, error = pair.streams["data"], pair.streams["error"]
            problem = await forward(self._connect, port, data)
            if problem:
                await error.write(problem.encode())
            await error.finish()
            if problem:
                await data.abort()
        except ConnectionError:
            return  # the client has gone, or has abandoned these streams

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a forwarded connection failed", exc_info=error)

    async def close(self) -> None:
        """Stop all forwarding."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _port(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536):
        return None
    return int(text)


async def forward_over_spdy(connect: Connect, wire: Wire) -> None:
    """Forward connections for a SPDY client until the client has disconnected. Raises ConnectionError."""
    pairs = _Pairs(connect)
    session = ServerSession(wire, pairs.accept)
    try:
        await session.run()
    finally:
        await pairs.close()
        await session.go_away()


class _ChannelStream:
    """One forwarded connection on two channels of a WebSocket (a `ForwardedStream`).

    The protocol has no message for the end of one side.
    """

    def __init__(self, channels: Channels, channel: int) -> None:
        self.input = Pipe()
        self.reset = asyncio.Event()
        self._channels = channels
        self._channel = channel

    async def write(self, data: bytes) -> None:
        """Send, waiting while the client does not read. Raises ConnectionError once the client has disconnected."""
        await self._channels.send(self._channel, data)

    async def finish(self) -> None:
        """Treat the end of the port's data as the end of the connection.

        The client cannot signal the end of its own data.
        """
        self.end()

    async def abort(self) -> None:
        """Close silently: the protocol has no message for this."""
        self.end()

    def end(self) -> None:
        """Mark the stream as dead."""
        self.reset.set()
        self.input.discard()


async def forward_over_channels(connect: Connect, ports: Sequence[int], websocket: WebSocket, dialect: Dialect) -> None:
    """Forward one connection for each port: data on channel 2 n, errors on 2 n + 1, each beginning with the port.

    Ends once all connections have ended, or the client has disconnected. Raises ConnectionError if the client had
    disconnected before.
    """
    channels = Channels(websocket, dialect)
    streams = [_ChannelStream(channels, 2 * number) for number in range(len(ports))]

    async def received(channel: int, data: bytes) -> None:
        if channel % 2 == 0 and channel // 2 < len(streams):
            await deliver(websocket, streams[channel // 2].input, data)

    async def read() -> None:
        try:
            await channels.read(received, lambda _channel: None)
        finally:
            for stream in streams:
                stream.end()

    async def serve(number: int) -> None:
        problem = await forward(connect, ports[number], streams[number])
        if problem:
            await channels.send(2 * number + 1, problem.encode())

    for number, port in enumerate(ports):
        await channels.send(2 * number, struct.pack("<H", port))
        await channels.send(2 * number + 1, struct.pack("<H", port))
    reading = asyncio.create_task(read())
    serving = [asyncio.create_task(serve(number)) for number in range(len(ports))]
    try:
        for ended in await asyncio.gather(*serving, return_exceptions=True):
            if isinstance(ended, Exception) and not isinstance(ended, ConnectionError):
                raise ended
        await part(websocket, reading)
    finally:
        for task in (reading, *serving):
            task.cancel()
        await asyncio.gather(reading, *serving, return_exceptions=True)
