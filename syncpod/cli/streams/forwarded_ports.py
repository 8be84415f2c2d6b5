"""Listens on ports of this machine, and hands each connection to a callback that carries it to a pod's port."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from syncpod.api.views.text import printable
from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.streaming.spdy import CHUNK

_LOCALHOST: Final = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class ForwardedPort:
    """A local port (0 = any free one), and the pod's port that it leads to."""

    local: int
    remote: int


class ForwardingOver(Failure):
    """No further connection can be forwarded, for example since the pod is gone."""


class Connected:
    """An accepted connection to a port of this machine; implements `syncpod.handlers.port_forwarding.Near`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        """Return the next bytes; b"" once the client has finished sending."""
        return await self._reader.read(CHUNK)

    async def write(self, data: bytes) -> None:
        """Send data; waits while the client does not read."""
        self._writer.write(data)
        await self._writer.drain()

    async def finish(self) -> None:
        """Finish sending."""
        self._writer.write_eof()


Carry = Callable[[Connected, int], Awaitable[None]]
"""Carries one connection to a port of the pod until it ends.

Raises Failure if this connection cannot be forwarded, ForwardingOver if no further one can, and OSError if one of its
ends breaks.
"""


class Forwarder:
    """Forwards ports of this machine."""

    def __init__(self, carry: Carry) -> None:
        """Hand each connection to `carry`."""
        self._carry = carry
        self._connections: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def forward(self, addresses: Sequence[str], ports: Sequence[ForwardedPort]) -> None:
        """Listen, and forward connections until SIGINT or SIGTERM; print the addresses and each connection.

        Raises BadInput for an address that cannot be listened on, and Failure once nothing more can be forwarded.
        """
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._end_connections)
            stack.enter_context(_until_interrupted(self._over))
            for port in ports:
                for server in await self._listen(addresses, port):
                    stack.callback(server.close)
            await self._over

    async def _listen(self, addresses: Sequence[str], port: ForwardedPort) -> list[asyncio.Server]:
        """Listen on the same port at all addresses; if one fails, close the others."""
        servers: list[asyncio.Server] = []
        local = port.local
        for name in addresses:
            for address in _LOCALHOST if name == "localhost" else (name,):
                try:
                    server = await asyncio.start_server(self._accepting(port.remote), address, local, limit=CHUNK)
                except OSError as error:
                    if name == "localhost" and address == "::1" and error.errno != errno.EADDRINUSE:
                        continue  # no IPv6 on this machine
                    for opened in servers:
                        opened.close()
                    raise BadInput(f"cannot listen on {_shown(address, local)}: {_why(error)}") from None
                servers.append(server)
                local = server.sockets[0].getsockname()[1]
                say(f"Forwarding from {_shown(address, local)} -> {port.remote}")
        return servers

    def _accepting(self, remote: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._serve(reader, writer, remote))
            self._connections.add(task)
            task.add_done_callback(self._served)

        return accept

    def _served(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._over.done():
            self._over.set_exception(error)

    async def _end_connections(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, remote: int) -> None:
        """Forward one connection until it ends. An error is printed, and the connection reset."""
        local = writer.get_extra_info("sockname")[1]
        say(f"Handling connection for {local}")
        try:
            await self._carry(Connected(reader, writer), remote)
        except Failure as problem:
            if not isinstance(problem, ForwardingOver):
                remark(f"an error occurred forwarding {local} -> {remote}: {printable(str(problem))}")
            _break_off(writer)
            if isinstance(problem, ForwardingOver):
                raise
        except OSError:
            _break_off(writer)  # one of the two ends is broken
        finally:
            writer.close()


@contextlib.contextmanager
def _until_interrupted(over: asyncio.Future[None]) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the forwarding; a signal that this process ignores stays ignored.

    (SIGINT is never ignored: see `syncpod.cli.streams.interrupts`.)
    """
    loop = asyncio.get_running_loop()
    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]

    def end() -> None:
        if not over.done():
            over.set_result(None)

    for number in handled:
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _break_off(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset, so that the client does not take it for a normal end."""
    if not writer.transport.is_closing():
        connected: socket.socket = writer.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _why(error: OSError) -> str:
    """Return the system's error without the address that asyncio adds."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return error.strerror or str(error)


def _shown(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
