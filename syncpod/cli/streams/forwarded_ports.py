"""Forwarding connections from this machine to ports of a pod.

Each connection has its own URL and SPDY session. kubectl puts all on one session (portforward.go, v1.36), where one
connection whose other end does not read holds up all others, and one that is refused can end them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from syncpod.cli.console import printable, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.runtime_client import unanswered
from syncpod.cri.errors import CriError, TransportFault
from syncpod.streaming.client import session_of
from syncpod.streaming.connection import UpgradeRefused
from syncpod.streaming.spdy import CHUNK, SpdyStream
from syncpod.translation import names

if TYPE_CHECKING:
    from syncpod.cri.client import CriClient
    from syncpod.pod import Pod

PROTOCOL: Final = "portforward.k8s.io"
_LOCALHOST: Final = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class ForwardedPort:
    """A local port, 0 = any free one, and the pod's port that it leads to."""

    local: int
    remote: int


class _PodGone(Failure):
    """The pod has been deleted: nothing more can be forwarded."""


class _Unreachable(Exception):
    """One connection could not be forwarded; the text says why."""


class Forwarder:
    """Forwards the ports of one pod."""

    def __init__(self, runtime: CriClient, pod: Pod) -> None:
        self._runtime = runtime
        self._pod = pod
        self._connections: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def forward(self, addresses: Sequence[str], ports: Sequence[ForwardedPort]) -> None:
        """Listen, and forward connections until SIGINT or SIGTERM; print the addresses and each connection.

        Raises BadInput for an address that cannot be listened on, and Failure once the pod has no sandbox.
        """
        await self._sandbox()
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._end_connections)
            stack.enter_context(_until_told(self._over))
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
        """Forward one connection until it ends; an error is printed, and resets it."""
        local = writer.get_extra_info("sockname")[1]
        say(f"Handling connection for {local}")
        try:
            await self._pass_on(reader, writer, remote)
        except (_Unreachable, Failure) as problem:
            if not isinstance(problem, _PodGone):
                remark(f"an error occurred forwarding {local} -> {remote}: {printable(str(problem))}")
            _break_off(writer)
            if isinstance(problem, _PodGone):
                raise
        except OSError:
            _break_off(writer)  # one of the two ends has broken off
        finally:
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, remote: int) -> None:
        try:
            url = await self._runtime.port_forward(await self._sandbox())
        except TransportFault as fault:
            raise unanswered(fault) from None
        except CriError as error:
            raise _Unreachable(error.message or error.code) from None
        try:
            async with session_of(url, PROTOCOL) as session:
                headers = {"port": str(remote), "requestid": "0"}
                try:
                    errors = await session.open({"streamtype": "error", **headers})
                    await errors.finish()
                    data = await session.open({"streamtype": "data", **headers})
                except ConnectionError as error:
                    raise _Unreachable(f"the runtime does not take the connection: {error}") from None
                await _pass(reader, writer, data, errors)
        except UpgradeRefused as error:
            raise _Unreachable(f"the runtime does not forward: {error}") from None

    async def _sandbox(self) -> str:
        """Return the id of the pod's current sandbox. Raises _PodGone, and Failure if it is not ready."""
        meta = self._pod.metadata
        try:
            found = await self._runtime.list_pod_sandboxes(labels={names.POD_UID_LABEL: meta.uid})
        except TransportFault as fault:
            raise unanswered(fault) from None
        if not found:
            raise _PodGone(f'pod "{meta.name}" is gone')
        newest = max(found, key=lambda sandbox: sandbox.attempt)
        if newest.state != "SANDBOX_READY":
            raise Failure(f'pod "{meta.name}" has no sandbox that is ready')
        return newest.id


async def _pass(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: SpdyStream, errors: SpdyStream
) -> None:
    """Copy bytes both ways until the runtime reports the end of the connection, and how it ended.

    Either end may close its direction first; containerd then gives the pod a second (socat's rule). Raises
    _Unreachable, and OSError if our end broke.
    """
    sending = asyncio.create_task(_to_pod(reader, data))
    receiving = asyncio.create_task(_from_pod(data, writer))
    hearing = asyncio.create_task(errors.input.whole())
    ended = asyncio.gather(receiving, hearing)
    pending: set[asyncio.Future[Any]] = {ended, sending}
    try:
        while not ended.done():
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        _, said = ended.result()
        if said:
            raise _Unreachable(said.decode(errors="replace"))
        if data.cut_off:
            raise ConnectionResetError("the pod's end broke off")
    finally:
        for task in (sending, receiving, hearing):
            task.cancel()
        await asyncio.gather(ended, sending, receiving, hearing, return_exceptions=True)


async def _to_pod(reader: asyncio.StreamReader, data: SpdyStream) -> None:
    while chunk := await reader.read(CHUNK):
        try:
            await data.write(chunk)
        except ConnectionError:
            return  # the pod takes no more input; its output is still read
    with contextlib.suppress(ConnectionError):
        await data.finish()


async def _from_pod(data: SpdyStream, writer: asyncio.StreamWriter) -> None:
    while chunk := await data.input.get():
        writer.write(chunk)
        await writer.drain()
    if not data.cut_off:
        writer.write_eof()


@contextlib.contextmanager
def _until_told(over: asyncio.Future[None]) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the forwarding; a signal that is ignored stays ignored.

    (SIGINT never is: see `syncpod.cli.streams.interrupts`.)
    """
    loop = asyncio.get_running_loop()
    heeded = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]

    def end() -> None:
        if not over.done():
            over.set_result(None)

    for number in heeded:
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in heeded:
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
