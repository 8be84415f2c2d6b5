"""A listener on the loopback before a server on a unix socket, which would take every connection, whoever's it is.

Each connection costs a descriptor. A process that has none left answers nobody, so a stranger's are bounded here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from syncpod.kernel.callers import Callers, PeerOf
from syncpod.kernel.http2_frames import Frames, HeadersTooLarge

_BLOCK: Final = 64 * 1024


class Front:
    """Passes bytes between its own port and the socket, for as many connections as `Callers` has room for."""

    def __init__(self, socket: Callable[[], str], peer_of: PeerOf) -> None:
        """`socket` returns the path at which the server behind listens."""
        self._socket, self._callers = socket, Callers(peer_of)
        self._server: asyncio.Server | None = None

    async def start(self, host: str) -> int:
        """Listen on a free port, and return it. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, 0)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Take no more connections; those that are open end with the server behind."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._callers.counted(writer) as has_room:
            try:
                if has_room:
                    await self._connect(reader, writer)
            finally:
                await _closed(writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes both ways until one side ends."""
        try:
            behind_reader, behind_writer = await asyncio.open_unix_connection(self._socket())
        except OSError:  # it ends just now
            return
        ways = [asyncio.ensure_future(_pass_on(reader, behind_writer, Frames()))]
        ways += [asyncio.ensure_future(_pass_on(behind_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await _closed(behind_writer)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames | None = None) -> None:
    """Pass bytes on until one side ends, or until they break the bounds of `frames`."""
    with suppress(OSError, HeadersTooLarge):
        while block := await reader.read(_BLOCK):
            if frames is not None:
                frames.read(block)
            writer.write(block)
            await writer.drain()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
