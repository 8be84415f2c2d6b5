"""A client's connection as a byte stream."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Protocol

from syncpod.streaming import spdy
from syncpod.streaming.pipe import Pipe
from syncpod.streaming.spdy import CHUNK

CLOSING_SECONDS: Final = 2.0
"""Seconds for a client to read the remaining data before the connection is closed."""


class Waiting(Protocol):
    """A connection whose end can be noticed while waiting for a pipe."""

    async def space(self, pipe: Pipe, seconds: float) -> bool:
        """Return whether a pipe has space within `seconds`. Raises ConnectionError if the client has disconnected.

        While a pipe is full, nothing is read from the connection, and the end of the client's data is queued behind
        unread data. So only a write reveals that the client has disconnected: implementations send a few bytes that
        their protocol ignores.
        """


class Wire(Waiting, spdy.Wire, Protocol):
    """The transport of a framed session: a TCP connection, or a WebSocket that carries bytes."""

    def write_at_once(self, data: bytes) -> None:
        """Send a few bytes without waiting. Raises ConnectionError once the client has disconnected."""

    async def flush(self) -> None:
        """Wait until the kernel has taken all data, even if the client does not read for long.

        Then the connection can be closed without losing data. Raises ConnectionError once the client has disconnected.
        """


async def deliver(connection: Waiting, pipe: Pipe, data: bytes) -> None:
    """Put bytes into a pipe and wait until it has space. Raises ConnectionError if the client has disconnected."""
    pipe.put(data)
    while not await connection.space(pipe, 1.0):
        pass


class Socket:
    """A TCP connection (a `Wire`)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return received data; empty once the client has disconnected, for any reason."""
        try:
            return await self._reader.read(CHUNK)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send, waiting while the client does not read. Raises ConnectionError once the client has disconnected."""
        self.write_at_once(data)
        await self._writer.drain()

    def write_at_once(self, data: bytes) -> None:
        """Send a few bytes without waiting. Raises ConnectionError once the client has disconnected."""
        if self._writer.is_closing():
            raise ConnectionResetError("the client is gone")
        self._writer.write(data)

    async def flush(self) -> None:
        """Wait until the kernel has all sent data. Raises ConnectionError once the client has disconnected."""
        self._writer.transport.set_write_buffer_limits(high=0)
        await self._writer.drain()

    async def space(self, pipe: Pipe, seconds: float) -> bool:
        """Return whether a pipe has space within `seconds`. Raises ConnectionError if the client has disconnected."""
        try:
            async with asyncio.timeout(seconds):
                await pipe.space()
        except TimeoutError:
            if self._writer.is_closing():
                raise ConnectionResetError("the client is gone") from None
            return False
        return True

    async def read_to_end(self) -> None:
        """End our side, and discard data that still arrives, since a reset could lose data that we have sent."""
        with contextlib.suppress(TimeoutError, OSError):
            self._writer.write_eof()
            async with asyncio.timeout(CLOSING_SECONDS):
                while await self.read():
                    pass

    async def close(self) -> None:
        """End the connection, giving the client a little time to read the rest."""
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                await self._writer.wait_closed()
        except (TimeoutError, OSError):
            self._writer.transport.abort()
