"""Several streams and messages on one connection, for a command that runs on another machine.

A frame has one byte for its kind, four bytes for the length of its content, and the content. Kinds below
:data:`MESSAGE` are streams; an empty frame ends a stream. Each end reads all frames as they arrive, even if nobody
reads the streams, and so notices at once that the connection has ended. A window limits the held bytes: an end sends at
most :data:`WINDOW_BYTES` more than the other end has passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from syncpod.streaming.pipe import Pipe

MESSAGE: Final = 8
"""The kind of a message."""
_PASSED: Final = 9
"""The kind of a frame that reports a number of bytes as passed on, so that the other end may send as many more."""
_PING: Final = 10
_HEAD_BYTES: Final = 5
_BLOCK: Final = 32 * 1024
"""Maximum bytes of a stream in one frame."""
FRAME_BYTES: Final = 256 * 1024
WINDOW_BYTES: Final = 512 * 1024
_MESSAGES: Final = 256
"""Maximum number of messages that wait to be read. Our own peers never send more."""
PING_SECONDS: Final = 15.0
SILENCE_SECONDS: Final = 60.0
"""Seconds without a frame, not even a ping, after which the connection counts as ended."""


class PeerGone(ConnectionError):
    """The connection has ended, or the other end has sent an invalid frame."""


class Multiplex:
    """One end of a connection. All methods belong to one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, incoming: Iterable[int]) -> None:
        """Begin one end; `incoming` names the streams that the other end sends, and all others are ignored."""
        self._reader, self._writer = reader, writer
        self._pipes = {number: Pipe() for number in incoming}
        self._room = Window(WINDOW_BYTES)
        self._held = 0
        """Bytes of streams that have arrived and are not passed on yet."""
        self._taken = dict.fromkeys(self._pipes, 0)
        """The number of bytes that the last read returned, by stream. The next read reports them as passed on."""
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.is_over = False
        """True once the connection has ended."""

    async def run(self) -> None:
        """Handle frames until the connection has ended, or an invalid frame comes; then all streams have ended."""
        pinging = asyncio.create_task(self._ping())
        try:
            while True:
                async with asyncio.timeout(SILENCE_SECONDS):
                    head = await self._reader.readexactly(_HEAD_BYTES)
                    size = int.from_bytes(head[1:])
                    if size > FRAME_BYTES:
                        return
                    data = await self._reader.readexactly(size)
                if not self._take(head[0], data):
                    return
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return
        finally:
            self.is_over = True
            self._room.close()
            pinging.cancel()
            await asyncio.gather(pinging, return_exceptions=True)
            for pipe in self._pipes.values():
                pipe.end()
            self._messages.put_nowait(None)

    async def read(self, stream: int) -> bytes:
        """Return the next bytes of a stream, empty at its end, or once the connection has ended.

        Data that was returned before counts as passed on.
        """
        if taken := self._taken[stream]:
            self._taken[stream] = 0
            self._held -= taken
            with contextlib.suppress(PeerGone):  # data that arrived before can still be read
                await self._send(_PASSED, taken.to_bytes(4))
        data = await self._pipes[stream].get()
        self._taken[stream] = len(data)
        return data

    async def write(self, stream: int, data: bytes) -> None:
        """Send bytes of a stream, waiting for room in the window. Raises PeerGone once the connection has ended."""
        rest = memoryview(data)
        while rest:
            taken = await self._room.take(min(len(rest), _BLOCK))
            if not taken:
                raise PeerGone("the other end is gone")
            await self._send(stream, bytes(rest[:taken]))
            rest = rest[taken:]

    async def end(self, stream: int) -> None:
        """End a stream that we send. Raises PeerGone once the connection has ended."""
        await self._send(stream, b"")

    async def message(self) -> bytes:
        """Return the next message. Raises PeerGone once the connection has ended."""
        found = await self._messages.get()
        if found is None:
            self._messages.put_nowait(None)
            raise PeerGone("the other end is gone")
        return found

    async def tell(self, text: str) -> None:
        """Send a message. Raises PeerGone once the connection has ended."""
        await self._send(MESSAGE, text.encode())

    def close(self) -> None:
        """Close the connection, after all buffered bytes are sent."""
        self._writer.close()

    def _take(self, kind: int, data: bytes) -> bool:
        """Handle one frame; return whether it was valid."""
        if kind == _PASSED and len(data) == 4:
            self._room.give(int.from_bytes(data))
        elif kind == MESSAGE:
            self._messages.put_nowait(data)
            return self._messages.qsize() <= _MESSAGES
        elif (pipe := self._pipes.get(kind)) is not None:
            if not data:
                pipe.end()
                return True
            self._held += len(data)
            pipe.put(data)
            return self._held <= WINDOW_BYTES
        return True

    async def _send(self, kind: int, data: bytes) -> None:
        try:
            self._writer.write(bytes([kind]) + len(data).to_bytes(4) + data)
            await self._writer.drain()
        except (OSError, RuntimeError) as error:  # asyncio's TLS raises either of them once the connection is closed
            raise PeerGone("the other end is gone") from error

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            try:
                await self._send(_PING, b"")
            except PeerGone:
                return


class Window:
    """A flow-control window: a number of bytes that are used up and given back.

    All methods belong to one event loop.
    """

    def __init__(self, size: int) -> None:
        self._left = size
        self._is_open = asyncio.Event()
        self._is_closed = False

    async def take(self, wanted: int) -> int:
        """Use up to `wanted` bytes, at least one, and return their number; wait while there are none.

        Return 0 once the window is closed.
        """
        while self._left <= 0 and not self._is_closed:
            self._is_open.clear()
            await self._is_open.wait()
        if self._is_closed:
            return 0
        taken = min(wanted, self._left)
        self._left -= taken
        return taken

    def give(self, size: int) -> None:
        """Give bytes back."""
        self._left += size
        self._is_open.set()

    def close(self) -> None:
        """Make each call of `take` return 0 from now on."""
        self._is_closed = True
        self._is_open.set()
