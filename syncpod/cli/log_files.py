"""Reading a container's log file: from an offset or a time, to its end or as it grows, across rotations."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Final

from syncpod.cli.log_lines import LineJoiner, LogLine, starts_of_last_lines

_BLOCK: Final = 64 * 1024
_POLL_SECONDS: Final = 0.1
_ALIVE_SECONDS: Final = 0.5


async def read_log(
    path: Path,
    *,
    tail: int | None = None,
    since: datetime | None = None,
    runs: Callable[[], Awaitable[bool]] | None = None,
) -> AsyncIterator[LogLine]:
    """Yield a log's lines: the last `tail` (None = all) of those not older than `since`.

    With `runs`, which says whether the container still does, goes on as the log grows, until the container has ended
    and its log is read to the end. A log that is rotated away is read to its end, and then the new one. Raises
    FileNotFoundError where there is none, and nothing that could make one runs.
    """
    joiner = LineJoiner()
    file = await _open(path, runs)
    try:
        if tail is not None:
            file.seek(starts_of_last_lines(_backwards(file), tail))
        ended = runs is None
        asked = 0.0
        loop = asyncio.get_running_loop()
        while True:
            block = file.read(_BLOCK)
            if block:
                for line in joiner.feed(block):
                    if _is_new_enough(line, since):
                        yield line
                continue
            if _was_replaced(file, path):
                file.close()
                file = await _open(path, runs)
                continue
            if ended or runs is None:
                break
            if loop.time() - asked > _ALIVE_SECONDS:
                # What is written before the end is in the file by the time that the end is known: read once more.
                asked, ended = loop.time(), not await runs()
                continue
            await asyncio.sleep(_POLL_SECONDS)
        for line in joiner.flush():
            if _is_new_enough(line, since):
                yield line
    finally:
        file.close()


async def _open(path: Path, runs: Callable[[], Awaitable[bool]] | None) -> FileIO:
    """Open the log; while the container runs it may be absent for a moment, between rotation and reopening."""
    while True:
        try:
            return FileIO(path)
        except FileNotFoundError:
            if runs is None or not await runs():
                raise
        await asyncio.sleep(_POLL_SECONDS)


def _was_replaced(file: FileIO, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(file.fileno())
    return (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino)


def _backwards(file: FileIO) -> Iterator[tuple[int, bytes]]:
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        yield start, file.read(end - start)
        end = start


def _is_new_enough(line: LogLine, since: datetime | None) -> bool:
    if since is None:
        return True
    try:
        return _moment(line.stamp) >= since
    except ValueError:
        return True


def _moment(stamp: str) -> datetime:
    """Read the runtime's time, whose nine decimals are more than Python keeps."""
    whole, dot, rest = stamp.partition(".")
    if not dot:
        return datetime.fromisoformat(stamp)
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return datetime.fromisoformat(f"{whole}.{rest[:digits][:6]}{rest[digits:]}")
