"""A SPDY/3.1 session: streams over one connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from syncpod.streaming.pipe import Pipe
from syncpod.streaming.spdy_frames import (
    Data,
    Decoder,
    Encoder,
    Frame,
    FrameError,
    GoAwayStatus,
    ResetStatus,
    RstStream,
)

logger = logging.getLogger(__name__)

CHUNK: Final = 64 * 1024
"""Maximum bytes of a stream in one frame."""


class Wire(Protocol):
    """The connection that a session runs on."""

    async def read(self) -> bytes:
        """Return the next bytes; empty once the connection has ended, for whatever reason."""

    async def write(self, data: bytes) -> None:
        """Send, waiting while the peer does not read. Raises ConnectionError once the connection has ended.

        The data of concurrent calls is sent in the order of the calls, each as a whole.
        """


class StreamReset(ConnectionError):
    """The peer has reset a stream."""


class SpdyStream:
    """One stream: the data from the peer, and the data to it.

    If one stream is not read, all of them stall: the peer's library has no flow-control windows, so only the connection
    itself has backpressure.
    """

    def __init__(self, session: SpdySession, stream_id: int, headers: Mapping[str, str]) -> None:
        self.id = stream_id
        self.headers = headers
        """Names in lower case."""
        self.input = Pipe()
        self.reset = asyncio.Event()
        """Set once the peer has reset the stream, or the connection has ended."""
        self.cut_off = False
        """True if the reset came before the peer had finished sending."""
        self._session = session
        self._finished = False

    @property
    def closed(self) -> bool:
        """True if no data can arrive or be sent any more."""
        return self.reset.is_set() or (self._finished and self.input.ended)

    async def write(self, data: bytes) -> None:
        """Send, waiting while the peer does not read. Raises StreamReset, ConnectionError."""
        for start in range(0, len(data), CHUNK):
            if self.reset.is_set() or self._finished:
                raise StreamReset(f"stream {self.id} is closed")
            await self._session.send_data(self.id, data[start : start + CHUNK])

    async def finish(self) -> None:
        """Finish sending. Raises ConnectionError once the connection has ended."""
        if self._finished or self.reset.is_set():
            return
        self._finished = True
        await self._session.send_data(self.id, b"", fin=True)
        self._session.forget_closed(self)

    async def abort(self) -> None:
        """Reset the stream as broken. Raises ConnectionError once the connection has ended."""
        if self.reset.is_set():
            return
        self.end()
        self._session.forget_closed(self)
        await self._session.send_reset(self.id, ResetStatus.INTERNAL_ERROR)

    def end(self) -> None:
        """Record that nothing can arrive or be sent any more; data that has arrived can still be read."""
        self.cut_off = not self.input.ended
        self.reset.set()
        self.input.end()


class SpdySession:
    """The common part of both sides: reads frames, and passes their contents to their streams."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._encoder = Encoder()
        self._streams: dict[int, SpdyStream] = {}
        self._last_stream_id = 0
        """The id of the newest stream that the peer opened."""

    async def run(self) -> None:
        """Read until the connection has ended; then all streams have ended."""
        decoder = Decoder()
        try:
            while data := await self._wire.read():
                for frame in decoder.feed(data):
                    if not await self._handle(frame):
                        return
        except FrameError as error:
            logger.info("closing a streaming connection: %s", error)
            await self.go_away(GoAwayStatus.PROTOCOL_ERROR)
        except ConnectionError:
            return
        finally:
            for stream in self._streams.values():
                stream.end()
            self._streams.clear()

    async def _handle(self, frame: Frame) -> bool:
        """Handle one frame; return whether the session continues."""
        match frame:
            case Data(stream_id, data, fin):
                stream = self._streams.get(stream_id)
                if stream is None:
                    return True  # the stream was closed while this frame was in flight
                await self._hand_on(data, stream.input)
                if fin:
                    stream.input.end()
                    self.forget_closed(stream)
            case RstStream(stream_id):
                stream = self._streams.pop(stream_id, None)
                if stream is not None:
                    stream.end()
        return True

    async def _hand_on(self, data: bytes, pipe: Pipe) -> None:
        """Put bytes into a pipe, and wait until it has space again."""
        pipe.put(data)
        await pipe.space()

    async def send_data(self, stream_id: int, data: bytes, *, fin: bool = False) -> None:
        """Send a part of a stream. Raises ConnectionError once the connection has ended."""
        await self._wire.write(self._encoder.data(stream_id, data, fin=fin))

    async def send_reset(self, stream_id: int, status: ResetStatus) -> None:
        """Reset a stream. Raises ConnectionError once the connection has ended."""
        await self._wire.write(self._encoder.rst_stream(stream_id, status))

    def forget_closed(self, stream: SpdyStream) -> None:
        """Forget a stream that is closed in both directions."""
        if stream.closed:
            self._streams.pop(stream.id, None)

    async def go_away(self, status: GoAwayStatus = GoAwayStatus.OK) -> None:
        """Announce the end of the connection to the peer, which may have closed it already."""
        try:
            await self._wire.write(self._encoder.go_away(self._last_stream_id, status))
        except ConnectionError:
            return
