"""What ``exec`` lends to a command: its input, and a terminal, raw, its size passed on, given back as it was."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from typing import Final

_BLOCK: Final = 32 * 1024


@contextlib.contextmanager
def raw(terminal: int) -> Iterator[None]:
    """Have every key passed on as it is typed, Ctrl-C too, for as long as the block lasts."""
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
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
    """Yield what comes from a terminal, a pipe or a file, until its end; no faster than it is taken."""
    while data := await _next(source):
        yield data


async def _next(source: int) -> bytes:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(source, ready.set)
    except PermissionError:
        return os.read(source, _BLOCK)  # a file, which never lets us wait
    try:
        await ready.wait()
    finally:
        loop.remove_reader(source)
    return os.read(source, _BLOCK)
