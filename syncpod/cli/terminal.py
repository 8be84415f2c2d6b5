"""The terminal that ``exec -t`` lends to a command: raw, its size passed on, given back as it was."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
import tty
from collections.abc import AsyncIterator, Iterator


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


async def keys(terminal: int) -> AsyncIterator[bytes]:
    """Yield what is typed, until the end of input."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Queue[bytes] = asyncio.Queue()
    loop.add_reader(terminal, lambda: typed.put_nowait(os.read(terminal, 4096)))
    try:
        while data := await typed.get():
            yield data
    finally:
        loop.remove_reader(terminal)
