"""A client's connection, as bytes both ways."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Protocol

from syncpod.streaming import spdy
from syncpod.streaming.pipe import Pipe
from syncpod.streaming.spdy import CHUNK

CLOSING_SECONDS: Final = 2.0
"""How long a client may take to read what was written before the end."""


class Waiting(Protocol):
    """A connection on which one can wait for a pipe, and not for ever."""

    async def space(self, pipe: Pipe, seconds: float) -> bool:
        """Return whether a pipe has space within so many seconds. Raises ConnectionError if the client is gone.

        While a pipe is full nothing is read, so a client's end would never be seen: its last words wait behind what it
        could not send. A few bytes sent to it show it, so whoever speaks a protocol sends some that mean nothing.
        """


class Wire(Waiting, spdy.Wire, Protocol):
    """What a session of frames runs on: a TCP connection, or a WebSocket that carries bytes."""

    def write_at_once(self, data: bytes) -> None:
        """Send without waiting: for a few bytes now and then. Raises ConnectionError once the client is gone."""

    async def flush(self) -> None:
        """Wait until the system has all that was sent, however long the client reads nothing.

        From then on a connection may end without anything of it being lost. Raises ConnectionError once it is gone.
        """


async def deliver(connection: Waiting, pipe: Pipe, data: bytes) -> None:
    """Put bytes into a pipe and wait until it has space again. Raises ConnectionError if the client is gone."""
    pipe.put(data)
    while not await connection.space(pipe, 1.0):
        pass


class Socket:
    """A TCP connection (a `Wire`)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return what has come; empty once the client is gone, however it went."""
        try:
            return await self._reader.read(CHUNK)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send, waiting while the client does not read. Raises ConnectionError once it is gone."""
        self.write_at_once(data)
        await self._writer.drain()

    def write_at_once(self, data: bytes) -> None:
        """Send without waiting: for a few bytes now and then. Raises ConnectionError once the client is gone."""
        if self._writer.is_closing():
            raise ConnectionResetError("the client is gone")
        self._writer.write(data)

    async def flush(self) -> None:
        """Wait until the system has all that was sent. Raises ConnectionError once the client is gone."""
        self._writer.transport.set_write_buffer_limits(high=0)
        await self._writer.drain()

    async def space(self, pipe: Pipe, seconds: float) -> bool:
        """Return whether a pipe has space within so many seconds. Raises ConnectionError if the client is gone."""
        try:
            async with asyncio.timeout(seconds):
                await pipe.space()
        except TimeoutError:
            if self._writer.is_closing():
                raise ConnectionResetError("the client is gone") from None
            return False
        return True

    async def hear_out(self) -> None:
        """Say that nothing more is sent, and pass over what still comes: who is cut short loses what it was told."""
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
