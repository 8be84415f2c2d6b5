"""The server's end of a SPDY/3.1 session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from syncpod.runtime.streaming.wire import Wire, deliver
from syncpod.streaming.pipe import Pipe
from syncpod.streaming.spdy import SpdySession, SpdyStream
from syncpod.streaming.spdy_frames import Frame, GoAway, Ping, ResetStatus, SynStream

MAX_STREAMS: Final = 2000
"""Maximum number of open streams on one connection. A forwarded connection needs two."""


class ServerSession(SpdySession):
    """Accepts the streams that a client opens."""

    def __init__(self, wire: Wire, accept: Callable[[SpdyStream], bool]) -> None:
        """`accept` is called with each stream that the client opens; it returns False to refuse the stream."""
        super().__init__(wire)
        self._client = wire
        self._accept = accept

    async def _handle(self, frame: Frame) -> bool:
        match frame:
            case SynStream():
                await self._open(frame)
            case Ping(ping_id) if ping_id % 2:  # even ids are ours
                await self._wire.write(self._encoder.ping(ping_id))
            case GoAway():
                return False
            case _:
                return await super()._handle(frame)
        return True

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

    async def _hand_on(self, data: bytes, pipe: Pipe) -> None:
        await deliver(self, pipe, data)

    async def space(self, pipe: Pipe, seconds: float) -> bool:
        """Return whether a pipe has space within `seconds`. Raises ConnectionError if the client has disconnected."""
        if await self._client.space(pipe, seconds):
            return True
        self._client.write_at_once(self._encoder.no_settings())
        return False

    async def flush(self) -> None:
        """Wait until the kernel has all sent data. Raises ConnectionError once the client has disconnected."""
        await self._client.flush()
