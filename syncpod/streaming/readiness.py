"""Waits until a file descriptor of any kind can be read or written, even if other processes share it.

The descriptor is not set to non-blocking: this would break a shell that shares the terminal or the pipe.
"""

from __future__ import annotations

import asyncio


async def readable(descriptor: int) -> None:
    """Wait until a read would not block. Returns at once for a regular file, which never blocks."""
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
    """Wait until a small write, which a pipe takes as a whole, would not block. Returns at once for a regular file."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_writer(descriptor, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)
