"""A bounded buffer between a peer and a reader."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

LIMIT: Final = 256 * 1024


class Pipe:
    """Holds a peer's data until it is read.

    `put` never waits, so that the handling of a frame can finish; the writer waits for `space` afterwards. So at most
    `limit` bytes and one more chunk are held.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def ended(self) -> bool:
        """True once no more data can arrive."""
        return self._ended

    def put(self, data: bytes) -> None:
        """Add bytes. After the end they are dropped."""
        if self._ended or not data:
            return
        self._chunks.append(data)
        self._size += len(data)
        self._readable.set()
        if self._size > self._limit:
            self._writable.clear()

    def end(self) -> None:
        """Mark the end; held data can still be read."""
        self._ended = True
        self._readable.set()

    def discard(self) -> None:
        """Drop the held data and all data that still arrives: nobody reads any more."""
        self._chunks.clear()
        self._size = 0
        self._writable.set()
        self.end()

    async def get(self) -> bytes:
        """Return all bytes that have arrived, waiting for the first; empty at the end."""
        while not self._chunks and not self._ended:
            self._readable.clear()
            await self._readable.wait()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        self._writable.set()
        return data

    async def whole(self) -> bytes:
        """Return all data until the end; use it only for short data."""
        read = bytearray()
        while data := await self.get():
            read += data
        return bytes(read)

    async def space(self) -> None:
        """Wait until no more than `limit` bytes are held."""
        await self._writable.wait()
