"""Runs commands for the node's fleet, and keeps the output of each until the fleet has fetched it.

Each command is a separate process of the node's own ``syncpod``: it uses none of the worker's memory or event loop, and
can be killed as a whole. Its output is read no faster than the fleet fetches it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from syncpod.agent.background import cancel_all
from syncpod.agent.own_commands import start_command
from syncpod.messages.remote_command import (
    IN_TIME_SECONDS,
    PIECE_BYTES,
    WAIT_SECONDS,
    RemoteCommand,
    RemoteCommandChunk,
    RemoteCommandPiece,
    Stream,
    is_repeatable,
    to_bytes,
    to_text,
    why_not,
)

log = logging.getLogger(__name__)

MOST: Final = 16
"""The most concurrent commands. Each takes a process, and up to two activities of the node's fleet link."""
IDLE_SECONDS: Final = 60.0
"""Seconds without a request after which a command is ended: the fleet sends one every :data:`WAIT_SECONDS` seconds."""
_TOLD_SECONDS: Final = 15.0
"""Seconds for which the last piece of an ended command can be requested again."""
_LOOK_SECONDS: Final = 5.0
_KEPT_BYTES: Final = 2 * PIECE_BYTES
"""The most bytes of output that wait to be fetched. Beyond them the command's writes block."""
_PIECE_CHUNKS: Final = 1024
"""The most chunks in one piece. If a command writes single bytes to both streams in turn, each byte is a chunk."""
_KEPT_CHUNKS: Final = 2 * _PIECE_CHUNKS
_BLOCK: Final = 32 * 1024
_TOGETHER_SECONDS: Final = 0.05
"""Seconds to wait for more output after the first, so that a piece has more than one line."""
_TERM_SECONDS: Final = 3.0
_ENDED: Final = 4096
"""The most ended sessions that are kept, so that none of them starts again: enough for :data:`IN_TIME_SECONDS`."""


class RunningCommand:
    """One command that runs, or has ended with output that is not fetched yet."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._kept: list[tuple[Stream, bytes]] = []
        self._begins = 0
        """The offset in the whole output of the first byte in `_kept`."""
        self._size = 0
        """How many bytes are in `_kept`."""
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._taken = 0
        """How many bytes of input the command has received."""
        self._giving = asyncio.Lock()
        self._code: int | None = None
        self._reading = asyncio.create_task(self._read(), name="remote command")
        self.asked = asyncio.get_running_loop().time()
        """Loop time of the fleet's last request about the command."""
        self.askers = 0
        """How many requests about the command are being answered."""

    @property
    def runs(self) -> bool:
        """Whether the command has not ended yet."""
        return self._code is None

    async def piece(self, received: int, wait: float) -> RemoteCommandPiece:
        """Return the output from offset `received` on. If there is none, wait for it, at most `wait` seconds."""
        self._forget(received)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while not self._size and self._code is None:
                    self._news.clear()
                    await self._news.wait()
                if self._code is None and self._size < PIECE_BYTES:
                    await asyncio.sleep(_TOGETHER_SECONDS)
        chunks: list[RemoteCommandChunk] = []
        left = PIECE_BYTES
        for stream, data in self._kept:
            if left <= 0 or len(chunks) == _PIECE_CHUNKS:
                break
            chunks.append(RemoteCommandChunk(stream=stream, data=to_text(data[:left])))
            left -= len(data)
        is_all = left >= 0 and len(chunks) == len(self._kept)
        return RemoteCommandPiece(chunks=tuple(chunks), code=self._code if is_all else None, input_taken=self._taken)

    async def give(self, at: int, data: bytes, wait: float, *, ends: bool) -> RemoteCommandPiece:
        """Write the part of `data` that the command lacks; `at` is the offset of `data` in the whole input.

        First waits until the command has read most of the earlier input, at most `wait` seconds. If the command has
        closed its input, `data` is accepted and dropped. `ends` closes the input.
        """
        stdin = self._process.stdin
        if stdin is None or stdin.is_closing():
            return RemoteCommandPiece(input_taken=at + len(data), input_over=True)
        async with self._giving:
            try:
                async with asyncio.timeout(wait):
                    await stdin.drain()
            except TimeoutError:
                return RemoteCommandPiece(input_taken=self._taken)
            except ConnectionError:
                return RemoteCommandPiece(input_taken=at + len(data), input_over=True)
            if at <= self._taken:
                stdin.write(data[self._taken - at :])
                self._taken = max(self._taken, at + len(data))
                if ends:
                    stdin.close()
        return RemoteCommandPiece(input_taken=self._taken, input_over=stdin.is_closing())

    async def end(self) -> None:
        """End the command with all its child processes. Returns once it has ended."""
        if self._process.returncode is None:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TERM_SECONDS):
                    await self._process.wait()
        self._signal(signal.SIGKILL)
        await cancel_all((self._reading,))
        self._kept, self._size = [], 0
        self._code = 128 + signal.SIGTERM if self._code is None else self._code
        self._news.set()

    def _signal(self, number: int) -> None:
        # The command leads its process group, and is not reaped yet, so the id cannot have been reused.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _forget(self, received: int) -> None:
        """Drop output that the fleet has received."""
        while self._kept and self._begins < received:
            stream, data = self._kept[0]
            gone = min(len(data), received - self._begins)
            self._begins, self._size = self._begins + gone, self._size - gone
            if gone < len(data):
                self._kept[0] = stream, data[gone:]
            else:
                del self._kept[0]
        self._room.set()

    async def _read(self) -> None:
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        await asyncio.gather(self._keep("stdout", process.stdout), self._keep("stderr", process.stderr))
        code = await process.wait()
        self._code = code if code >= 0 else 128 - code
        self._news.set()

    async def _keep(self, stream: Stream, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_BLOCK):
            if self._kept and self._kept[-1][0] == stream and len(self._kept[-1][1]) < _BLOCK:
                self._kept[-1] = stream, self._kept[-1][1] + data
            else:
                self._kept.append((stream, data))
            self._size += len(data)
            self._news.set()
            while self._size >= _KEPT_BYTES or len(self._kept) >= _KEPT_CHUNKS:
                self._room.clear()
                await self._room.wait()


class RemoteCommands:
    """The commands that a node runs for its fleet. All methods belong to one event loop."""

    def __init__(self, node: str, environment: Mapping[str, str]) -> None:
        """Run commands with `environment`, which names the node's own server and state directory."""
        self._node, self._environment = node, dict(environment)
        self._commands: dict[str, RunningCommand] = {}
        self._turn = asyncio.Lock()
        """Held while a command is started or dropped: it must not be started twice, nor after its end."""
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._since = time.monotonic()
        """Monotonic start of this record: a command requested earlier may have run without being recorded here. The
        wall clock is not used: if it were set back, every later command would seem earlier."""

    async def answer(self, asked: RemoteCommand) -> RemoteCommandPiece:
        """Start a command, pass input to it, end it, or return its next output, as requested."""
        wait = min(max(0.0, asked.wait), WAIT_SECONDS)
        if asked.end:
            await self._end(asked.session)
            return RemoteCommandPiece()
        async with self._turn:
            command = self._commands.get(asked.session)
            if command is None:
                if why := self._why_not(asked):
                    return RemoteCommandPiece(refused=why)
                command = self._commands[asked.session] = await self._begin(asked)
        command.askers += 1
        try:
            if asked.give:
                data = to_bytes(asked.input)[:PIECE_BYTES]
                return await command.give(asked.input_at, data, wait, ends=asked.input_ends)
            return await command.piece(asked.received, wait)
        finally:
            command.askers -= 1
            command.asked = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """End commands about which the fleet sends no more requests. When cancelled, end all commands."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                for session, command in list(self._commands.items()):
                    longest = IDLE_SECONDS if command.runs else _TOLD_SECONDS
                    if not command.askers and loop.time() - command.asked > longest:
                        await self._end(session)
        finally:
            await asyncio.gather(*map(self._end, list(self._commands)))

    def _why_not(self, asked: RemoteCommand) -> str:
        if not asked.begin:
            return f"node {self._node} no longer has the command: the command was ended, or the worker was restarted"
        if why := why_not(asked.words):
            return why
        if asked.session in self._ended or not asked.session:
            return "the command was ended before it began"
        if not is_repeatable(asked.words) and (why := self._why_late(asked.asked_at)):
            return why
        if sum(each.runs for each in self._commands.values()) >= MOST or len(self._commands) >= 4 * MOST:
            return f"node {self._node} already runs {MOST} commands for its fleet: wait until one ends"
        return ""

    def _why_late(self, asked_at: float) -> str:
        """Return why a command requested at `asked_at` may be a copy of an earlier one, and is refused; else "".

        A client that can poll the fleet's task queue can resend a request that the fleet once sealed for the node.
        """
        late = time.time() - asked_at
        if abs(late) > IN_TIME_SECONDS:
            return (
                f"the command was sent {abs(late):.0f} s {'ago' if late > 0 else 'ahead'} by the clock of node "
                f"{self._node}, and at most {IN_TIME_SECONDS:.0f} s are accepted: set the clocks of both machines"
            )
        if late > time.monotonic() - self._since:
            return f"the worker of node {self._node} started after the command was sent: send the command again"
        return ""

    async def _begin(self, asked: RemoteCommand) -> RunningCommand:
        pipe = asyncio.subprocess.PIPE
        stdin = pipe if asked.with_input else asyncio.subprocess.DEVNULL
        process = await start_command(asked.words, self._environment, stdin, pipe, pipe)
        log.info("for the fleet: syncpod %s", asked.words[0])
        return RunningCommand(process)

    async def _end(self, session: str) -> None:
        """End a command, and record its session, so that it cannot start again."""
        async with self._turn:
            self._ended[session] = None
            if len(self._ended) > _ENDED:
                self._ended.popitem(last=False)
            command = self._commands.pop(session, None)
        if command is not None:
            await command.end()
