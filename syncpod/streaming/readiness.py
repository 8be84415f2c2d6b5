"""Waiting until a descriptor can be read or written, whatever it is and whoever else holds it.

Nothing is made non-blocking for this: a terminal or a pipe is often shared with the shell, which would suffer.
"""

from __future__ import annotations

import asyncio


async def readable(descriptor: int) -> None:
    """Wait until a read would not block. Returns at once for a file, which never lets anybody wait."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def writable(descriptor: int) -> None:
    """Wait until a small write would not block: as much as a pipe takes whole. Returns at once for a file."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_writer(descriptor, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)
