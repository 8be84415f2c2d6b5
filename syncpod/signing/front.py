"""A loopback listener in front of a gRPC server on a unix socket. It limits connections and traffic of other users.

A connection costs a file descriptor, and each message costs time of the process's only event loop. So strangers (all
users but the owner and root) may use only a share of the descriptors and of the time. A connection whose user the
kernel does not name counts as a stranger's.
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
"""The maximum average rate of all strangers' calls together. Each call is refused; above the rate, connections
close."""
CALLS_BURST: Final = 500
FRAMES_PER_SECOND: Final = 200
"""The maximum average rate of small HTTP/2 frames of all strangers together. A call has about five."""
FRAMES_BURST: Final = 2_500
PAUSE_SECONDS: Final = 5.0
"""Seconds for which all strangers' connections are refused after one exceeded the limits."""
_BLOCK: Final = 64 * 1024
_STRANGERS: Final = "strangers"


class Bounds:
    """The limit of traffic of all strangers together; further accounts and connections do not raise it."""

    def __init__(self) -> None:
        """Begin with both bursts full."""
        self._calls = Budget(CALLS_PER_SECOND, CALLS_BURST)
        self._frames = Budget(FRAMES_PER_SECOND, FRAMES_BURST)
        self._closed_until = 0.0

    def is_open(self) -> bool:
        """Return whether a stranger may connect."""
        return asyncio.get_running_loop().time() >= self._closed_until

    def allow(self, counted: Counted) -> bool:
        """Count received calls and frames, and return whether they are within the limits."""
        now = asyncio.get_running_loop().time()
        has_calls = self._calls.spend(_STRANGERS, now, counted.calls)
        is_allowed = self._frames.spend(_STRANGERS, now, counted.frames) and has_calls
        if not is_allowed:
            self._closed_until = now + PAUSE_SECONDS
        return is_allowed


class Front:
    """Passes bytes between its own port and the socket, for as many connections as `Callers` has room for."""

    def __init__(self, socket: Callable[[], str], peer_of: PeerOf) -> None:
        """`socket` returns the path at which the gRPC server listens."""
        self._socket, self._callers, self._bounds = socket, Callers(peer_of), Bounds()
        self._server: asyncio.Server | None = None

    async def start(self, host: str) -> int:
        """Listen on a free port, and return it. Raises OSError."""
        self._server = take_crowds(await asyncio.start_server(self._serve, host, 0))
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Accept no more connections; open ones end when the gRPC server ends."""
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
        except OSError:  # the gRPC server has just ended
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
    """Pass on a client's bytes until one side ends, or until the client sends too large headers or too much."""
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
