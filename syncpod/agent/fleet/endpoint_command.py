"""Runs one command over the node's endpoint, with a terminal if the client requests one."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from syncpod.agent.background import cancel_all
from syncpod.agent.own_commands import start_command
from syncpod.messages.endpoint import INPUT, STDERR, STDOUT, Begin, Ended, Resized
from syncpod.streaming.multiplex import Multiplex, PeerGone
from syncpod.streaming.readiness import readable, writable

_BLOCK: Final = 32 * 1024
_TERM_SECONDS: Final = 3.0
"""Seconds between SIGTERM and SIGKILL, and again between SIGKILL and giving up."""
_LARGEST: Final = 65535
"""The most columns or rows of a terminal."""


@dataclass(frozen=True)
class _Command:
    """A command's process, and its streams."""

    process: asyncio.subprocess.Process
    outputs: Mapping[int, Callable[[], Awaitable[bytes]]]
    """By number of the output stream: returns the next bytes, empty at the stream's end."""
    give: Callable[[bytes], Awaitable[None]]
    """Writes input to the command; empty input is the end. Does nothing if the command has closed its input."""
    resize: Callable[[int, int], None]
    """Sets the columns and rows of the command's terminal, if it has one."""


async def run_command(link: Multiplex, asked: Begin, environment: Mapping[str, str]) -> Ended:
    """Run a command, and return how it ended. A cancellation ends the command and its process group.

    Raises PeerGone if the other end of the link is gone.
    """
    try:
        async with _started(asked, environment) as command:
            sending = [asyncio.create_task(_tell(link, number, read)) for number, read in command.outputs.items()]
            helping = [
                asyncio.create_task(_give(link, command.give)),
                asyncio.create_task(_resize(link, command.resize)),
            ]
            try:
                await asyncio.gather(*sending)
                code = await command.process.wait()
            finally:
                await cancel_all((*sending, *helping))
    except PeerGone:
        raise
    except OSError as error:
        return Ended(refused=f"the command cannot be started: {error.strerror or error}")
    return Ended(code=code if code >= 0 else 128 - code)


@asynccontextmanager
async def _started(asked: Begin, environment: Mapping[str, str]) -> AsyncIterator[_Command]:
    """Start a command, with a terminal if one is requested, and end it after the block. Raises OSError."""
    if asked.terminal is None:
        command = await _with_pipes(asked, environment)
        try:
            yield command
        finally:
            await _end(command.process)
        return
    ours, theirs = pty.openpty()
    try:
        try:
            command = await _with_terminal(asked, environment, ours, theirs)
        finally:
            os.close(theirs)
        try:
            yield command
        finally:
            await _end(command.process)
    finally:
        os.close(ours)


async def _with_pipes(asked: Begin, environment: Mapping[str, str]) -> _Command:
    pipe = asyncio.subprocess.PIPE
    stdin = pipe if asked.with_input else asyncio.subprocess.DEVNULL
    process = await start_command(asked.words, environment, stdin, pipe, pipe)
    out, err, writer = process.stdout, process.stderr, process.stdin
    assert out is not None
    assert err is not None

    async def give(data: bytes) -> None:
        if writer is None or writer.is_closing():
            return
        with contextlib.suppress(ConnectionError):
            if data:
                writer.write(data)
                await writer.drain()
            else:
                writer.close()

    outputs = {STDOUT: lambda: out.read(_BLOCK), STDERR: lambda: err.read(_BLOCK)}
    return _Command(process, outputs, give, lambda columns, rows: None)


async def _with_terminal(asked: Begin, environment: Mapping[str, str], ours: int, theirs: int) -> _Command:
    def resize(columns: int, rows: int) -> None:
        size = (max(0, min(each, _LARGEST)) for each in (rows, columns))
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    async def read() -> bytes:
        while True:
            await readable(ours)
            try:
                return os.read(ours, _BLOCK)
            except BlockingIOError:
                continue
            except OSError:  # no process has the terminal open any more
                return b""

    async def give(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(ours, rest) :]
            except BlockingIOError:
                await writable(ours)
            except OSError:  # no process has the terminal open any more
                return

    os.set_blocking(ours, False)
    assert asked.terminal is not None
    resize(*asked.terminal)
    named = {each: text for each, text in environment.items() if each not in ("COLUMNS", "LINES")}
    named["TERM"] = asked.term[:64].replace("\0", "") or "xterm"
    process = await start_command(asked.words, named, theirs, theirs, theirs)
    return _Command(process, {STDOUT: read}, give, resize)


async def _tell(link: Multiplex, number: int, read: Callable[[], Awaitable[bytes]]) -> None:
    """Send one output stream of a command until the stream ends."""
    while data := await read():
        await link.write(number, data)
    await link.end(number)


async def _give(link: Multiplex, give: Callable[[bytes], Awaitable[None]]) -> None:
    """Pass input from the link to the command, and the input's end."""
    while data := await link.read(INPUT):
        await give(data)
    await give(b"")


async def _resize(link: Multiplex, resize: Callable[[int, int], None]) -> None:
    while True:
        said = await link.message()
        with contextlib.suppress(ValueError):
            size = Resized.model_validate_json(said)
            resize(size.columns, size.rows)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a command and its process group, if it has not ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        # The command leads its process group, and is not reaped yet, so the id cannot have been reused.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TERM_SECONDS):
                await process.wait()
