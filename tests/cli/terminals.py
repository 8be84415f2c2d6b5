"""Interactive and port-forwarding commands, started as processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Sequence


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "syncpod.cli.main", *arguments]


def environment(environ: dict[str, str]) -> dict[str, str]:
    return {**os.environ, **environ, "TERM": "xterm", "TEMPORAL_CONFIG_FILE": os.devnull}


class Terminal:
    """A program on a pseudo-terminal, to which a test types."""

    def __init__(self, environ: dict[str, str], *arguments: str) -> None:
        self._terminal, theirs = pty.openpty()
        # pty.fork would run Python, and gRPC's handlers, in a child of a process with threads, which may crash there.
        self._process = subprocess.Popen(
            command_line(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=environment(environ)
        )
        os.close(theirs)
        self.pid, self.seen = self._process.pid, b""

    def type(self, text: bytes) -> None:
        os.write(self._terminal, text)

    def until(self, *signs: bytes) -> None:
        """Wait for one of these texts in the output since the last match."""
        deadline = time.monotonic() + 60
        while not any(sign in self.seen for sign in signs):
            assert select.select([self._terminal], [], [], max(0, deadline - time.monotonic()))[0], self.seen
            try:
                self.seen += os.read(self._terminal, 4096)
            except OSError:
                raise AssertionError(f"it has ended, after {self.seen!r}") from None
        self.seen = b""

    def resize(self, columns: int, rows: int) -> None:
        termios.tcsetwinsize(self._terminal, (rows, columns))
        os.kill(self.pid, signal.SIGWINCH)

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._terminal)[3] & termios.ECHO)

    def ended(self) -> int:
        """Wait for its end, and return its exit code."""
        with contextlib.suppress(OSError):
            while select.select([self._terminal], [], [], 30)[0] and os.read(self._terminal, 4096):
                pass
        code = self._process.wait()
        os.close(self._terminal)
        return code


async def start(environ: dict[str, str], *arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *command_line(*arguments), stdin=pipe, stdout=pipe, stderr=pipe, env=environment(environ)
    )


@contextlib.asynccontextmanager
async def forwarding(
    environ: dict[str, str], *arguments: str, program: Sequence[str] = ("port-forward",)
) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[int]]]:
    """Forward ports, and yield the process and the local ports; at the end, Ctrl-C must end it without leftovers."""
    process = await start(environ, *program, *arguments)
    assert process.stdout and process.stderr
    try:
        found: list[int] = []
        wanted = len([argument for argument in arguments if ":" in argument])
        while len(found) < wanted:
            line = (await process.stdout.readline()).decode()
            assert line, (await process.stderr.read()).decode()
            said = re.fullmatch(r"Forwarding from 127\.0\.0\.1:(\d+) -> \d+\n", line)
            if said:
                found.append(int(said[1]))
        try:
            yield process, found
        except BaseException as error:
            process.kill()
            error.add_note((await process.stderr.read()).decode())
            raise
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
