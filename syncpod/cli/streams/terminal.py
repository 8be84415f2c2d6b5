"""The command's own input, output and terminal, for ``exec`` and ``attach``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from typing import Final

from syncpod.cli.failure import BadInput, Failure
from syncpod.streaming.readiness import readable, writable

_BLOCK: Final = 32 * 1024
_TAKEN_WHOLE: Final = select.PIPE_BUF
"""Maximum number of bytes that a writable pipe accepts without blocking the writer."""


def our_input() -> int:
    """Return the descriptor of our standard input. Raises BadInput if it is closed."""
    if sys.stdin is None:
        raise BadInput("--stdin: standard input is closed")
    return sys.stdin.fileno()


_ENDS: Final = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def raw(terminal: int) -> Iterator[None]:
    """Put the terminal into raw mode during the block: every key is passed on as it is typed, also Ctrl-C.

    The terminal is restored afterwards. After SIGTERM or SIGHUP the block is cancelled, and Failure raised with the
    exit code that a shell would show. Must run in a task.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    told: list[int] = []

    def leave(number: int) -> None:
        told.append(number)
        task.cancel()

    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSANOW)  # keeps keys that have been typed already
    try:
        for number in _ENDS:
            loop.add_signal_handler(number, leave, number)
        yield
    except asyncio.CancelledError:
        if told:
            raise Failure("", 128 + told[0]) from None
        raise
    finally:
        for number in _ENDS:
            loop.remove_signal_handler(number)
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


async def sizes(terminal: int) -> AsyncIterator[tuple[int, int]]:
    """Yield the columns and rows of the terminal, now and after each change."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            size = os.get_terminal_size(terminal)
            yield size.columns, size.lines
            await changed.wait()
            changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def read(source: int) -> AsyncIterator[bytes]:
    """Yield data from a terminal, a pipe or a file until its end, no faster than it is consumed."""
    while True:
        await readable(source)
        data = os.read(source, _BLOCK)
        if not data:
            return
        yield data


async def write(target: int, data: bytes) -> None:
    """Write all data to a terminal, a pipe or a file, without blocking the event loop.

    Raises BrokenPipeError once there is no reader.
    """
    ready = select.poll()
    ready.register(target, select.POLLOUT)
    rest = memoryview(data)
    while rest:
        if not ready.poll(0):
            await writable(target)
        rest = rest[os.write(target, rest[:_TAKEN_WHOLE]) :]
