"""Streams of commands on this machine, in place of those of a runtime's containers."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self

from syncpod.runtime.port import StartFailed, Stream
from syncpod.runtime.streaming import StreamingServer


class LocalStreams:
    """One command, run without a shell."""

    def __init__(self, process: asyncio.subprocess.Process, *, kills: bool, terminal: int = -1) -> None:
        self.process = process
        self.closed = asyncio.Event()
        self._kills = kills
        self._terminal = terminal

    @classmethod
    async def start(cls, *arguments: str, terminal: bool = False, kills: bool = True) -> Self:
        """Start it; with `kills`, closing the streams kills it, as for exec but not for attach."""
        master, slave = os.openpty() if terminal else (-1, -1)
        stream = slave if terminal else asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *(("setsid", "-c", *arguments) if terminal else arguments),
                stdin=stream,
                stdout=stream,
                stderr=stream,
                start_new_session=not terminal,
            )
        except FileNotFoundError:
            raise StartFailed(f'exec: "{arguments[0]}": executable file not found in $PATH') from None
        finally:
            if terminal:
                os.close(slave)
        return cls(process, kills=kills, terminal=master)

    async def write(self, data: bytes) -> None:
        if self._terminal >= 0:
            await asyncio.to_thread(os.write, self._terminal, data)
            return
        assert self.process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self.process.stdin.write(data)
            await self.process.stdin.drain()

    def end_input(self) -> None:
        if self._terminal >= 0:
            os.write(self._terminal, b"\x04")
            return
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        if self._terminal >= 0:
            with contextlib.suppress(OSError):  # EIO: nobody has the terminal open any more
                while data := await asyncio.to_thread(os.read, self._terminal, 65536):
                    yield Stream.STDOUT, data
            return
        chunks: asyncio.Queue[tuple[Stream, bytes]] = asyncio.Queue(4)

        async def read(stream: Stream, reader: asyncio.StreamReader | None) -> None:
            assert reader is not None
            data = b"-"
            while data:
                data = await reader.read(65536)
                await chunks.put((stream, data))

        readers = [
            asyncio.create_task(read(Stream.STDOUT, self.process.stdout)),
            asyncio.create_task(read(Stream.STDERR, self.process.stderr)),
        ]
        try:
            ended = 0
            while ended < len(readers):
                stream, data = await chunks.get()
                if data:
                    yield stream, data
                else:
                    ended += 1
        finally:
            for reader in readers:
                reader.cancel()

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> int:
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

    async def close(self) -> None:
        if self._kills:
            self.kill()
            await self.process.wait()
        self.closed.set()

    def kill(self) -> None:
        """Kill it and all that it started."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


class Commands:
    """Opens streams for a server's URLs, records them, and ends all at the end."""

    def __init__(self, streaming: StreamingServer) -> None:
        self.streaming = streaming
        self.started: list[LocalStreams] = []
        self._some = asyncio.Event()

    def exec(self, *arguments: str, tty: bool = False, stdin: bool = False) -> str:
        """Return a URL for running a command."""
        return self.streaming.exec_url(
            self._opener(arguments, terminal=tty), tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )

    def attach(self, *arguments: str) -> str:
        """Return a URL for the streams of a command that no client may end."""
        return self.streaming.attach_url(
            self._opener(arguments, kills=False), tty=False, stdin=True, stdout=True, stderr=True
        )

    def _opener(
        self, arguments: tuple[str, ...], *, terminal: bool = False, kills: bool = True
    ) -> Callable[[], Awaitable[LocalStreams]]:
        async def open_streams() -> LocalStreams:
            streams = await LocalStreams.start(*arguments, terminal=terminal, kills=kills)
            self.started.append(streams)
            self._some.set()
            return streams

        return open_streams

    async def one(self) -> LocalStreams:
        """Wait for the only started command, and return it."""
        await self._some.wait()
        (streams,) = self.started
        return streams

    async def close(self) -> None:
        await self.streaming.close()
        for streams in self.started:
            streams.kill()
            await streams.process.wait()


@contextlib.asynccontextmanager
async def commands_of_a_server() -> AsyncIterator[Commands]:
    """A streaming server and the commands behind its URLs."""
    commands = Commands(await StreamingServer.start())
    try:
        yield commands
    finally:
        await commands.close()
