"""A SPDY/3.1 session: streams that the client opens over one connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from syncpod.streaming.pipe import Pipe
from syncpod.streaming.spdy_frames import (
    Data,
    Decoder,
    Encoder,
    Frame,
    FrameError,
    GoAway,
    GoAwayStatus,
    Ping,
    ResetStatus,
    RstStream,
    SynStream,
)
from syncpod.streaming.wire import CHUNK, Wire, deliver

logger = logging.getLogger(__name__)

MAX_STREAMS: Final = 2000
"""Open at the same time on one connection. A forwarded connection takes two."""


class StreamReset(ConnectionError):
    """The client has no more interest in a stream."""


class SpdyStream:
    """One stream: what the client sends on it, and what is sent to it.

    A client that is not read from on one stream is held up on all of them: its library knows no windows, so the
    connection's own backpressure is all there is.
    """

    def __init__(self, session: Session, stream_id: int, headers: Mapping[str, str]) -> None:
        self.id = stream_id
        self.headers = headers
        """Names in lower case."""
        self.input = Pipe()
        self.reset = asyncio.Event()
        """The client has ended it both ways."""
        self._session = session
        self._finished = False

    @property
    def closed(self) -> bool:
        """Whether nothing can come or go any more."""
        return self.reset.is_set() or (self._finished and self.input.ended)

    async def write(self, data: bytes) -> None:
        """Send, waiting while the client does not read. Raises StreamReset, and ConnectionError once it is gone."""
        for start in range(0, len(data), CHUNK):
            if self.reset.is_set() or self._finished:
                raise StreamReset(f"stream {self.id} is closed")
            await self._session.send_data(self.id, data[start : start + CHUNK])

    async def finish(self) -> None:
        """Say that nothing more is sent. Raises ConnectionError once the client is gone."""
        if self._finished or self.reset.is_set():
            return
        self._finished = True
        await self._session.send_data(self.id, b"", fin=True)
        self._session.forget_closed(self)

    async def abort(self) -> None:
        """End the stream both ways, as one that broke. Raises ConnectionError once the client is gone."""
        if self.reset.is_set():
            return
        self.end()
        self._session.forget_closed(self)
        await self._session.send_reset(self.id, ResetStatus.INTERNAL_ERROR)

    def end(self) -> None:
        """Take note that nothing can come or go any more."""
        self.reset.set()
        self.input.end()


class Session:
    """Reads frames, hands their contents to the streams they belong to, and answers."""

    def __init__(self, wire: Wire, accept: Callable[[SpdyStream], bool]) -> None:
        """`accept` is asked for each stream that the client opens, and takes it or refuses it."""
        self._wire = wire
        self._accept = accept
        self._encoder = Encoder()
        self._streams: dict[int, SpdyStream] = {}
        self._last_stream_id = 0

    async def run(self) -> None:
        """Read until the client is gone; then no stream has anything more to come."""
        decoder = Decoder()
        try:
            while data := await self._wire.read():
                for frame in decoder.feed(data):
                    if isinstance(frame, GoAway):
                        return
                    await self._handle(frame)
        except FrameError as error:
            logger.info("closing a streaming connection: %s", error)
            await self.go_away(GoAwayStatus.PROTOCOL_ERROR)
        except ConnectionError:
            return
        finally:
            for stream in self._streams.values():
                stream.end()
            self._streams.clear()

    async def _handle(self, frame: Frame) -> None:
        match frame:
            case SynStream():
                await self._open(frame)
            case Data(stream_id, data, fin):
                stream = self._streams.get(stream_id)
                if stream is None:
                    return  # was closed, and this was under way
                await deliver(self, stream.input, data)
                if fin:
                    stream.input.end()
                    self.forget_closed(stream)
            case RstStream(stream_id):
                stream = self._streams.pop(stream_id, None)
                if stream is not None:
                    stream.end()
            case Ping(ping_id) if ping_id % 2:  # an even one would be our own
                await self._wire.write(self._encoder.ping(ping_id))

    async def _open(self, frame: SynStream) -> None:
        if frame.stream_id <= self._last_stream_id or frame.stream_id % 2 == 0:
            await self.send_reset(frame.stream_id, ResetStatus.PROTOCOL_ERROR)
            return
        self._last_stream_id = frame.stream_id
        stream = SpdyStream(self, frame.stream_id, frame.headers)
        if len(self._streams) >= MAX_STREAMS or not self._accept(stream):
            await self.send_reset(frame.stream_id, ResetStatus.REFUSED_STREAM)
            return
        self._streams[stream.id] = stream
        if frame.fin:
            stream.input.end()
        await self._wire.write(self._encoder.syn_reply(stream.id))

    async def space(self, pipe: Pipe, seconds: float) -> bool:
        """Return whether a pipe has space within so many seconds. Raises ConnectionError if the client is gone."""
        if await self._wire.space(pipe, seconds):
            return True
        self._wire.write_at_once(self._encoder.no_settings())
        return False

    async def send_data(self, stream_id: int, data: bytes, *, fin: bool = False) -> None:
        """Send a piece of a stream. Raises ConnectionError once the client is gone."""
        await self._wire.write(self._encoder.data(stream_id, data, fin=fin))

    async def send_reset(self, stream_id: int, status: ResetStatus) -> None:
        """End a stream both ways. Raises ConnectionError once the client is gone."""
        await self._wire.write(self._encoder.rst_stream(stream_id, status))

    async def flush(self) -> None:
        """Wait until the system has all that was sent. Raises ConnectionError once the client is gone."""
        await self._wire.flush()

    def forget_closed(self, stream: SpdyStream) -> None:
        """Forget a stream if nothing can come or go on it any more."""
        if stream.closed:
            self._streams.pop(stream.id, None)

    async def go_away(self, status: GoAwayStatus = GoAwayStatus.OK) -> None:
        """Tell the client that the connection ends; it may be gone already."""
        try:
            await self._wire.write(self._encoder.go_away(self._last_stream_id, status))
        except ConnectionError:
            return
