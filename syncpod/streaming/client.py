"""The client side of a SPDY/3.1 session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from syncpod.streaming.connection import Connection
from syncpod.streaming.spdy import SpdySession, SpdyStream, StreamReset, Wire
from syncpod.streaming.spdy_frames import Frame, Ping, ResetStatus, RstStream, SynReply, SynStream

PING_SECONDS: Final = 60.0
"""Seconds between pings: a runtime closes connections that are idle for hours, and a user may just be reading."""


class ClientSession(SpdySession):
    """Opens streams, and keeps the session alive."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._opening: dict[int, asyncio.Future[None]] = {}
        """By id: streams that the server has neither accepted nor refused so far."""
        self._ended = False
        self._next_id = 1
        self._next_ping = 1

    async def open(self, headers: Mapping[str, str]) -> SpdyStream:
        """Open a stream, and wait until the server has accepted it: data sent earlier would be dropped.

        Raises StreamReset if the server refuses, and ConnectionError once the connection has ended.
        """
        if self._ended:
            raise _gone()
        stream = SpdyStream(self, self._next_id, headers)
        self._next_id += 2
        self._streams[stream.id] = stream
        answer = self._opening[stream.id] = asyncio.get_running_loop().create_future()
        try:
            await self._wire.write(self._encoder.syn_stream(stream.id, headers))
            await answer
        finally:
            self._opening.pop(stream.id, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # mark the error as retrieved: the caller gets it, or the write failed first
        return stream

    async def run(self) -> None:
        """Read until the connection has ended; then all streams have ended.

        A GOAWAY of the server is not the end: data that it sent before may still arrive.
        """
        pinging = asyncio.create_task(self._ping())
        try:
            await super().run()
        finally:
            pinging.cancel()
            self._ended = True
            for answer in self._opening.values():
                if not answer.done():
                    answer.set_exception(_gone())
            self._opening.clear()

    async def _handle(self, frame: Frame) -> bool:
        match frame:
            case SynReply(stream_id):
                if (answer := self._opening.pop(stream_id, None)) is not None and not answer.done():
                    answer.set_result(None)
            case SynStream(stream_id):  # a runtime has no reason to open a stream to us
                await self.send_reset(stream_id, ResetStatus.REFUSED_STREAM)
            case Ping(ping_id) if ping_id % 2 == 0:  # an odd id is the answer to our own ping
                await self._wire.write(self._encoder.ping(ping_id))
            case RstStream(stream_id) if (answer := self._opening.pop(stream_id, None)) is not None:
                if not answer.done():
                    answer.set_exception(StreamReset(f"the server refuses stream {stream_id}"))
                return await super()._handle(frame)
            case _:
                return await super()._handle(frame)
        return True

    async def _ping(self) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await asyncio.sleep(PING_SECONDS)
                await self._wire.write(self._encoder.ping(self._next_ping))
                self._next_ping = (self._next_ping + 2) & 0x7FFFFFFF


def _gone() -> ConnectionResetError:
    return ConnectionResetError("the server is gone")


@contextlib.asynccontextmanager
async def session_of(url: str, protocol: str) -> AsyncIterator[ClientSession]:
    """Connect to the URL that a runtime returned, and yield a session on which streams can be opened.

    At the end the connection is closed, and with it all streams. Raises UpgradeRefused.
    """
    connection = await Connection.dial(url, protocol)
    session = ClientSession(connection)
    reading = asyncio.create_task(session.run())
    try:
        yield session
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        connection.close()
