"""The server's side of a supervisor's sockets: commands executed in a container, and attachments to it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import struct
import termios
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

from syncpod.runtime.port import StartFailed, Stream
from syncpod.runtime.processes.packets import CHUNK, LONGEST, Word
from syncpod.runtime.processes.records import CONTROL

_END_OF_TRANSMISSION = b"\x04"
_ANSWER_SECONDS = 30.0
"""Seconds to wait for a supervisor's answer; a stopped supervisor never answers."""
_File = TypeVar("_File", int, socket.socket)
_STREAMS = {Word.STDOUT: Stream.STDOUT, Word.STDERR: Stream.STDERR}


def connect(directory: Path) -> socket.socket:
    """Connect to the supervisor of the container in `directory`. Raises OSError if there is none."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # This goes through the directory's descriptor, since a path may be too long for a socket address.
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        sock.setblocking(False)
        sock.connect(f"/proc/self/fd/{descriptor}/{CONTROL}")
    except OSError:
        sock.close()
        raise
    finally:
        os.close(descriptor)
    return sock


async def ask(directory: Path, packet: bytes) -> bytes:
    """Send one packet on a separate connection, and return the answer; empty if the container ended instead.

    Raises TimeoutError, an OSError, if its supervisor does not answer.
    """
    with connect(directory) as sock:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(sock, packet)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await loop.sock_recv(sock, LONGEST)
        except ConnectionError:
            return b""


class Executed:
    """A command that runs in a container: the server has its streams, and its parent is the supervisor."""

    def __init__(self, sock: socket.socket, *, input_end: int, outputs: dict[int, Stream], terminal: bool) -> None:
        """Take the socket and the descriptors that `execute` made; `input_end` is -1 without input."""
        self._sock = sock
        self._input = input_end
        self._outputs = outputs
        self._terminal = terminal
        self._code: asyncio.Task[int] = asyncio.create_task(self._await_exit())

    async def write(self, data: bytes) -> None:
        """Send input; waits while the command does not read."""
        view = memoryview(data)
        while view and self._input >= 0:
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                await writable(self._input)
            except OSError:
                return  # It does not read any more.

    def end_input(self) -> None:
        """End the command's input; on a terminal, by ^D."""
        if self._input < 0:
            return
        if self._terminal:
            with contextlib.suppress(OSError):
                os.write(self._input, _END_OF_TRANSMISSION)
        else:
            os.close(self._input)
            self._input = -1

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        """Yield the command's output until all processes have closed it."""
        while self._outputs:
            for descriptor in await readable(*self._outputs):
                try:
                    data = os.read(descriptor, CHUNK)
                except BlockingIOError:
                    continue
                except OSError:  # EIO: no process has the terminal open any more.
                    data = b""
                if data:
                    yield self._outputs[descriptor], data
                    continue
                del self._outputs[descriptor]
                if descriptor != self._input:
                    os.close(descriptor)

    def resize(self, columns: int, rows: int) -> None:
        """Resize the command's terminal."""
        if self._terminal and self._input >= 0:
            fcntl.ioctl(self._input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> int:
        """Return the exit code, 128 + n after signal n; 137 if the container ended and the command with it."""
        return await asyncio.shield(self._code)

    async def close(self) -> None:
        """Close the streams. This kills a running command with everything that it started.

        Processes that an ended command left behind run on until the container ends.
        """
        self._code.cancel()
        try:
            await asyncio.wait((self._code,))  # raises only the caller's own cancellation
        finally:
            self._sock.close()
            for descriptor in {*self._outputs, self._input} - {-1}:
                os.close(descriptor)
            self._outputs.clear()
            self._input = -1

    async def _await_exit(self) -> int:
        loop = asyncio.get_running_loop()
        while True:
            try:
                packet = await loop.sock_recv(self._sock, LONGEST)
            except ConnectionError:
                packet = b""
            if packet[:1] == Word.EXITED:
                return int(packet[1:])
            if not packet or packet[:1] == Word.ENDED:
                return 137


async def execute(
    directory: Path, arguments: tuple[str, ...], *, terminal: bool, stdin: bool, merge_stderr: bool
) -> Executed:
    """Run a command in the container in `directory`. Raises StartFailed, also after a timeout.

    After a cancellation or timeout nothing is left running: the supervisor kills the command of a client that has
    disconnected.
    """
    theirs: list[int] = []
    ours: list[int] = []
    sock: socket.socket | None = None
    try:
        outputs: dict[int, Stream] = {}
        input_end = -1
        if terminal:
            master, slave = os.openpty()
            ours, theirs = [master], [slave]
            outputs, input_end = {master: Stream.STDOUT}, master
        else:
            if stdin:
                reading, input_end = os.pipe()
                ours, theirs = [input_end], [reading]
            else:
                theirs = [os.open(os.devnull, os.O_RDONLY)]
            for stream in (Stream.STDOUT,) if merge_stderr else (Stream.STDOUT, Stream.STDERR):
                reading, writing = os.pipe()
                outputs[reading] = stream
                ours, theirs = [*ours, reading], [*theirs, writing]
        for descriptor in ours:
            os.set_blocking(descriptor, False)
        request = os.memfd_create("command")
        theirs.append(request)
        os.write(request, json.dumps({"arguments": arguments, "terminal": terminal}).encode())
        os.lseek(request, 0, os.SEEK_SET)
        streams = theirs[:-1] if not merge_stderr or terminal else [*theirs[:-1], theirs[-2]]
        sock = connect(directory)
        socket.send_fds(sock, [Word.EXECUTE], [request, *streams])
        async with asyncio.timeout(_ANSWER_SECONDS):
            answer = await asyncio.get_running_loop().sock_recv(sock, LONGEST)
        if answer[:1] == Word.REFUSED:
            raise StartFailed(answer[1:].decode(errors="surrogateescape"))
        if answer[:1] != Word.STARTED:
            raise StartFailed("the container has ended")
        return Executed(sock, input_end=input_end, outputs=outputs, terminal=terminal)
    except BaseException as error:
        for descriptor in ours:
            os.close(descriptor)
        if sock is not None:
            sock.close()
        if isinstance(error, FileNotFoundError | ConnectionError):
            raise StartFailed("the container has ended") from error
        if isinstance(error, BlockingIOError | TimeoutError):
            raise StartFailed("the container's supervisor does not answer") from error
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)


class Attached:
    """An attachment to a container's own streams."""

    def __init__(self, sock: socket.socket, exit_code: asyncio.Future[int]) -> None:
        """Take an attached connection; `exit_code` is the container's."""
        self._sock = sock
        self._exit_code = exit_code
        self._sending: asyncio.Task[None] | None = None

    async def write(self, data: bytes) -> None:
        """Send input; waits while the container does not read."""
        for start in range(0, len(data), CHUNK):
            await self._send(Word.STDIN + data[start : start + CHUNK])

    def end_input(self) -> None:
        """End the input: the container's too, if its input ends with the first attached client.

        Otherwise, and on a terminal, this detaches once the supervisor has received all data sent before.
        """
        self._send(Word.STDIN)

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        """Yield the container's output until it ends, we detach, or the supervisor detaches us as too slow."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                packet = await loop.sock_recv(self._sock, LONGEST)
            except OSError:
                return
            if not packet or packet[:1] == Word.ENDED:
                return
            if packet[:1] in _STREAMS:
                yield _STREAMS[packet[:1]], packet[1:]
                await asyncio.sleep(0)  # a read of available packets does not suspend, so let other tasks run

    def resize(self, columns: int, rows: int) -> None:
        """Resize the container's terminal."""
        self._send(Word.RESIZE + struct.pack("!HH", columns, rows))

    async def wait(self) -> int:
        """Return the container's exit code."""
        return await asyncio.shield(self._exit_code)

    async def close(self) -> None:
        """Detach."""
        try:
            if self._sending is not None:
                self._sending.cancel()
                await asyncio.wait((self._sending,))  # raises only the caller's own cancellation
        finally:
            self._sock.close()

    def _send(self, packet: bytes) -> asyncio.Task[None]:
        """Send the data after all queued data."""
        earlier = self._sending

        async def send() -> None:
            if earlier is not None:
                await earlier
            with contextlib.suppress(OSError):  # It has ended.
                await asyncio.get_running_loop().sock_sendall(self._sock, packet)

        self._sending = asyncio.create_task(send())
        return self._sending


async def attach(directory: Path, exit_code: asyncio.Future[int]) -> Attached:
    """Attach to the container in `directory`. Raises StartFailed if it has ended."""
    try:
        sock = connect(directory)
    except OSError as error:
        raise StartFailed("the container has ended") from error
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await loop.sock_sendall(sock, Word.ATTACH)
            answer = await loop.sock_recv(sock, LONGEST)
    except ConnectionError as error:
        sock.close()
        raise StartFailed("the container has ended") from error
    except TimeoutError as error:
        sock.close()
        raise StartFailed("the container's supervisor does not answer") from error
    except BaseException:
        sock.close()
        raise
    if answer[:1] != Word.STARTED:
        sock.close()
        raise StartFailed("the container has ended")
    return Attached(sock, exit_code)


async def writable(file: socket.socket | int) -> None:
    """Wait until a write would not block, or the other end is closed."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(file, _set_ready, ready)
    try:
        await ready
    finally:
        loop.remove_writer(file)


async def readable(*files: _File) -> list[_File]:
    """Wait until at least one file can be read without blocking, or has its other end closed; return these files."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    found: list[_File] = []

    def note(file: _File) -> None:
        found.append(file)
        _set_ready(ready)

    for file in files:
        loop.add_reader(file, note, file)
    try:
        await ready
    finally:
        for file in files:
            loop.remove_reader(file)
    return list(dict.fromkeys(found))


def _set_ready(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
