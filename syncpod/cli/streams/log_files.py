"""Reading a container's log: from an offset, to its end or as it grows, across rotations.

Mirrors kuberuntime/logs/logs.go, v1.36, ReadLogs: a log is its growing file, in which the last lines and those since a
time are looked for; what was rotated away is read only on request. Differences:

- The file that was followed is read to the end that nobody writes beyond any more, then each that was begun since, in
  their order, compressed or not: the kubelet goes to the newest, and what stands between is lost.
- A log that is not at its path, since it is being rotated, is read where it is.
"""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Final

from syncpod.cli.streams.log_lines import LineJoiner, LogLine, count_lines, is_new_enough, starts_of_last_lines
from syncpod.node.log_files import COMPRESSED, is_being_written, rotated_files

_BLOCK: Final = 256 * 1024
_POLL_SECONDS: Final = 0.1
_ALIVE_SECONDS: Final = 0.5
_SETTLED_SECONDS: Final = 2.0
"""How long a file that was rotated away may have a writer, or may seem to, without a line: then it is at its end."""
_DELETED: Final = " (deleted)"

Runs = Callable[[], Awaitable[bool]]
"""Says whether the container still runs."""


async def read_log(
    path: Path,
    *,
    tail: int | None = None,
    since: datetime | None = None,
    rotated: bool = False,
    runs: Runs | None = None,
) -> AsyncIterator[LogLine]:
    """Yield a log's lines: the last `tail` (None = all) of those not older than `since`; see :func:`read_blocks`."""
    joiner = LineJoiner()
    async for block in read_blocks(path, tail=tail, rotated=rotated, runs=runs):
        for line in joiner.feed(block):
            if is_new_enough(line, since):
                yield line
    for line in joiner.flush():
        if is_new_enough(line, since):
            yield line


async def read_blocks(
    path: Path, *, tail: int | None = None, rotated: bool = False, runs: Runs | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield a log's bytes, in blocks of any size: those of its last `tail` lines (None = all).

    With `rotated`, it begins with the oldest file that is kept. With `runs`, it goes on as the log grows, until the
    container has ended and its log is read to the end. Raises FileNotFoundError where there is no log, and nothing that
    could make one runs.
    """
    file = await _first(path, tail, rotated, runs)
    try:
        ended = runs is None
        loop = asyncio.get_running_loop()
        asked, last_read, at_end = 0.0, loop.time(), False
        while True:
            block = file.read()
            if block:
                at_end, last_read = False, loop.time()
                yield block
                await asyncio.sleep(0)  # whoever else is followed has a turn
                continue
            if runs is None and file.was_newest:
                break  # what has come since was not there when it was asked for
            if (following := file.following()) is not None:
                if not at_end and file.may_grow():
                    at_end = loop.time() - last_read > _SETTLED_SECONDS
                    await asyncio.sleep(_POLL_SECONDS)
                elif not at_end:
                    at_end = True  # what was written before its writer left is in the file by now: read once more
                elif (newer := _opened(path, following)) is not None:
                    file.close()
                    file, at_end, last_read = newer, False, loop.time()
                continue
            if ended or runs is None:
                break
            if loop.time() - asked > _ALIVE_SECONDS:
                # What is written before the end is in the file by the time that the end is known: read once more.
                asked, ended = loop.time(), not await runs()
                continue
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        file.close()


class _LogFile:
    """One open file of a log."""

    def __init__(self, path: Path, file: Path) -> None:
        """Open `file`, of the log that grows at `path`. Raises FileNotFoundError."""
        self._path = path
        self._opened = file
        self.was_newest = file == path
        """It was the one that grows when it was opened."""
        self._compressed = file.name.endswith(COMPRESSED)
        self._stream: FileIO | gzip.GzipFile = gzip.GzipFile(file) if self._compressed else FileIO(file)

    def close(self) -> None:
        self._stream.close()

    def read(self) -> bytes:
        """Return what comes next, b"" where there is nothing more now."""
        return self._stream.read(_BLOCK) or b""

    def seek_last(self, lines: int, *, is_last: bool) -> int:
        """Go to where the last lines begin; return how many fewer than these there are.

        `is_last`: there is no line after this file's, so that what it ends with is one without a line end, too.
        """
        start = starts_of_last_lines(self._backwards(), lines, with_unfinished=is_last)
        short = 0
        if not start:
            self._stream.seek(0)
            short = max(0, lines - count_lines(iter(self.read, b""), with_unfinished=is_last))
        self._stream.seek(start)
        return short

    def may_grow(self) -> bool:
        """Say whether somebody has it open for writing."""
        return not self._compressed and is_being_written(self._stream.fileno())

    def following(self) -> Path | None:
        """Return the file that was begun after this one, None where this is the one that grows."""
        name = self._name()
        if name != self._path.name:
            newer = [file for file in rotated_files(self._path) if file.name.removesuffix(COMPRESSED) > name]
            return newer[0] if newer else self._path if self._path.exists() else None
        if self._is_at_path() or not self._path.exists():
            return None
        return self._path  # somebody has taken it away, and the runtime has made another

    def _name(self) -> str:
        """Return the name that it has now, or had before it was removed: that it was opened by may be another's."""
        if self._compressed:
            return self._opened.name.removesuffix(COMPRESSED)
        return Path(os.readlink(f"/proc/self/fd/{self._stream.fileno()}").removesuffix(_DELETED)).name  # noqa: PTH115

    def _is_at_path(self) -> bool:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        held = os.fstat(self._stream.fileno())
        return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)

    def _backwards(self) -> Iterator[tuple[int, bytes]]:
        if self._compressed:  # to go back in it is to begin anew each time
            self._stream.seek(0)
            yield 0, self._stream.read() or b""
            return
        end = self._stream.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK)
            self._stream.seek(start)
            yield start, self._stream.read(end - start) or b""
            end = start


async def _first(path: Path, tail: int | None, rotated: bool, runs: Runs | None) -> _LogFile:
    """Open the file to begin with, where to begin; while the container runs there may be none for a moment."""
    while True:
        older = rotated_files(path)
        if rotated:
            file = _last_lines(path, [path, *reversed(older)], tail)
        else:
            # One that is not at its path is being rotated: what is written goes to the newest.
            file = _last_lines(path, [path], tail) or _last_lines(path, older[-1:], tail)
        if file is not None:
            return file
        if runs is None or not await runs():
            raise FileNotFoundError(str(path))
        await asyncio.sleep(_POLL_SECONDS)


def _last_lines(path: Path, files: Iterable[Path], tail: int | None) -> _LogFile | None:
    """Open, of files from the newest, that in which the last lines begin, or the oldest; None where there is none."""
    found: _LogFile | None = None
    left = tail
    for each in files:
        if (older := _opened(path, each)) is None:
            continue
        if found is not None:
            found.close()
        found = older
        if left is not None and not (left := found.seek_last(left, is_last=left == tail)):
            break
    return found


def _opened(path: Path, file: Path) -> _LogFile | None:
    """Open one of a log's files; None where it has gone, or is compressed, since it was listed."""
    try:
        return _LogFile(path, file)
    except FileNotFoundError:
        return None
