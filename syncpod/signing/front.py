"""A listener on the loopback before a server on a unix socket, which would take every connection of every user.

Each connection costs a descriptor, and its messages cost time of the process's only loop. A process that has none left
answers nobody, so both are bounded here for strangers. A caller with the token is the owner, whom nothing bounds,
unless the kernel does not name users: then commands of a person need the token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from syncpod.kernel.callers import Budget, Callers, PeerOf
from syncpod.kernel.http2_frames import Counted, Frames, HeadersTooLarge
from syncpod.kernel.listening import take_crowds

CALLS_PER_SECOND: Final = 20
"""Calls of all strangers on average, none of which is answered. With more, the connection is closed."""
CALLS_BURST: Final = 500
FRAMES_PER_SECOND: Final = 200
"""Small frames of all strangers on average. A call has about five."""
FRAMES_BURST: Final = 2_500
PAUSE_SECONDS: Final = 5.0
"""For so long no stranger is let in, once they have sent too much."""
_BLOCK: Final = 64 * 1024
_STRANGERS: Final = "strangers"


class Bounds:
    """The traffic that all strangers together may send: a further account, or a new connection, gives them no more."""

    def __init__(self) -> None:
        """Begin with all of both bursts."""
        self._calls = Budget(CALLS_PER_SECOND, CALLS_BURST)
        self._frames = Budget(FRAMES_PER_SECOND, FRAMES_BURST)
        self._closed_until = 0.0

    def is_open(self) -> bool:
        """Say whether a stranger may connect."""
        return asyncio.get_running_loop().time() >= self._closed_until

    def allow(self, counted: Counted) -> bool:
        """Count the bytes that have come, and say whether they are not too many."""
        now = asyncio.get_running_loop().time()
        has_calls = self._calls.spend(_STRANGERS, now, counted.calls)
        is_allowed = self._frames.spend(_STRANGERS, now, counted.frames) and has_calls
        if not is_allowed:
            self._closed_until = now + PAUSE_SECONDS
        return is_allowed


class Front:
    """Passes bytes between its own port and the socket, for as many connections as `Callers` has room for."""

    def __init__(self, socket: Callable[[], str], peer_of: PeerOf) -> None:
        """`socket` returns the path at which the server behind listens."""
        self._socket, self._callers, self._bounds = socket, Callers(peer_of), Bounds()
        self._server: asyncio.Server | None = None

    async def start(self, host: str) -> int:
        """Listen on a free port, and return it. Raises OSError."""
        self._server = take_crowds(await asyncio.start_server(self._serve, host, 0))
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Take no more connections; those that are open end with the server behind."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._callers.counted(writer) as has_room:
            try:
                bounds = None if self._callers.is_owners(writer) else self._bounds
                if has_room and (bounds is None or bounds.is_open()):
                    await self._connect(reader, writer, bounds)
            finally:
                await _closed(writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bounds: Bounds | None) -> None:
        """Pass bytes both ways until one side ends."""
        try:
            behind_reader, behind_writer = await asyncio.open_unix_connection(self._socket())
        except OSError:  # it ends just now
            return
        ways = [asyncio.ensure_future(_pass_in(reader, behind_writer, bounds))]
        ways += [asyncio.ensure_future(_pass_on(behind_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await _closed(behind_writer)


async def _pass_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bounds: Bounds | None) -> None:
    """Pass on what a client sends until one side ends, or until it has large headers, or is beyond its bounds."""
    frames = Frames()
    with suppress(OSError, HeadersTooLarge):
        while block := await reader.read(_BLOCK):
            counted = frames.read(block)
            if bounds is not None and not bounds.allow(counted):
                return
            writer.write(block)
            await writer.drain()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until one side ends."""
    with suppress(OSError):
        while block := await reader.read(_BLOCK):
            writer.write(block)
            await writer.drain()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
