"""Reads a container's log: from an offset, to its end or as it grows, across rotations.

Mirrors kuberuntime/logs/logs.go, v1.36, ReadLogs: the last lines, and those since a time, are read from the growing
file; rotated files are read only on request. Differences:

- On a rotation, the followed file is read until no process writes to it, then every newer file in order, compressed or
  not. The kubelet jumps to the newest, and loses the lines in between.
- A log that is not at its path, because it is being rotated, is read from its new place.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Final, Protocol, TypeVar

from syncpod.kernel.os_errors import where_and_why
from syncpod.node.log_files import COMPRESSED, is_being_written, open_log_file, rotated_files
from syncpod.node.log_lines import LineJoiner, LogLine, count_lines, starts_of_last_lines

_T = TypeVar("_T")

_BLOCK: Final = 256 * 1024
_POLL_SECONDS: Final = 0.1
_ALIVE_SECONDS: Final = 0.5
_SETTLED_SECONDS: Final = 2.0
"""Seconds without a new line after which a rotated file counts as finished, although a process may still write to
it."""
_DELETED: Final = " (deleted)"

Runs = Callable[[], Awaitable[bool]]
"""Returns whether the container still runs."""


class Do(Protocol):
    """Runs a function that uses a disk, which may hang: directly, or in a thread."""

    async def __call__(self, work: Callable[[], _T], /) -> _T:
        """Return the result of `work`, or raise its error."""


async def at_once(work: Callable[[], _T], /) -> _T:
    """Call `work` directly, in a process that has nothing else to do."""
    return work()


async def read_log(path: Path, runs: Runs) -> AsyncIterator[LogLine]:
    """Yield a log's lines as it grows, until the container has ended. Raises the errors of :func:`read_blocks`."""
    joiner = LineJoiner()
    async for block in read_blocks(path, runs=runs):
        for line in joiner.feed(block):
            yield line
    for line in joiner.flush():
        yield line


class LogUnreadable(Exception):
    """The file at a log's path is not a readable log; the text is the error of the kernel, or of the decompression."""


async def read_blocks(
    path: Path, *, tail: int | None = None, rotated: bool = False, runs: Runs | None = None, do: Do = at_once
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a log's last `tail` lines (None = all), in blocks of any size.

    `do` runs all work on the disk. With `rotated`, the lines begin with the oldest file. With `runs`, they continue as
    the log grows, until the container has ended and its log is read to the end. Raises PermissionError;
    FileNotFoundError if there is no log and the container does not run; and LogUnreadable, since a pod that mounts the
    node's log directory may put anything there, at any moment.
    """
    blocks = _blocks(path, tail, rotated, runs, do)
    try:
        async for block in blocks:
            yield block
    except (FileNotFoundError, PermissionError):
        raise
    except (OSError, EOFError, zlib.error) as error:
        said = error.strerror if isinstance(error, OSError) else None
        raise LogUnreadable(said or where_and_why(error)) from error
    finally:
        await blocks.aclose()


async def _blocks(
    path: Path, tail: int | None, rotated: bool, runs: Runs | None, do: Do
) -> AsyncGenerator[bytes, None]:
    file = await _first(path, tail, rotated, runs, do)
    try:
        ended = runs is None
        loop = asyncio.get_running_loop()
        asked, last_read, at_end = 0.0, loop.time(), False
        while True:
            block = await do(file.read)
            if block:
                at_end, last_read = False, loop.time()
                yield block
                await asyncio.sleep(0)  # give other followed logs a turn
                continue
            if runs is None and file.was_newest:
                break  # later lines did not exist at the time of the request
            if (following := await do(file.following)) is not None:
                if not at_end and await do(file.may_grow):
                    at_end = loop.time() - last_read > _SETTLED_SECONDS
                    await asyncio.sleep(_POLL_SECONDS)
                elif not at_end:
                    at_end = True  # its writer has gone, so its content is final: read once more
                elif (newer := await do(partial(_opened, path, following))) is not None:
                    _close(file, do)
                    file, at_end, last_read = newer, False, loop.time()
                continue
            if ended or runs is None:
                break
            if loop.time() - asked > _ALIVE_SECONDS:
                # Once the end is known, all output is in the log: read once more.
                asked, ended = loop.time(), not await runs()
                continue
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        _close(file, do)


_closing: Final[set[asyncio.Task[None]]] = set()
"""Tasks that close files. Nobody awaits these tasks, and without a reference a task could be collected before its
end."""


def _close(file: _LogFile, do: Do) -> None:
    """Close a file. If `do` uses threads, a thread that still reads the file ends first."""
    if do is at_once:
        file.close()
        return
    task = asyncio.ensure_future(do(file.close))
    _closing.add(task)
    task.add_done_callback(_closing.discard)


class _LogFile:
    """One open file of a log."""

    def __init__(self, path: Path, file: Path) -> None:
        """Open `file`, of the log that grows at `path`. Raises FileNotFoundError."""
        self._path = path
        self._opened = file
        self.was_newest = file == path
        """True if this was the growing file when it was opened."""
        self._compressed = file.name.endswith(COMPRESSED)
        self._file = FileIO(open_log_file(file))
        self._stream: FileIO | gzip.GzipFile = gzip.GzipFile(fileobj=self._file) if self._compressed else self._file

    def close(self) -> None:
        self._stream.close()
        self._file.close()

    def read(self) -> bytes:
        """Return the next block, b"" if there is none now."""
        return self._stream.read(_BLOCK) or b""

    def seek_last(self, lines: int, *, is_last: bool) -> int:
        """Seek to the beginning of the last `lines` lines; return the number of lines that are missing.

        With `is_last` no later file has lines, so an unfinished line at the end counts.
        """
        start = starts_of_last_lines(self._backwards(), lines, with_unfinished=is_last)
        short = 0
        if not start:
            self._stream.seek(0)
            short = max(0, lines - count_lines(iter(self.read, b""), with_unfinished=is_last))
        self._stream.seek(start)
        return short

    def may_grow(self) -> bool:
        """Return whether a process has the file open for writing."""
        return not self._compressed and is_being_written(self._stream.fileno())

    def following(self) -> Path | None:
        """Return the next newer file; None if this is the growing one."""
        if self._is_at_path():
            return None  # under any name: log_rotation.py renames a log, and back if the runtime does not reopen it
        name = self._name()
        if name != self._path.name:
            newer = [file for file in rotated_files(self._path) if file.name.removesuffix(COMPRESSED) > name]
            return newer[0] if newer else self._path if self._path.exists() else None
        if not self._path.exists():
            return None
        return self._path  # the file was removed, and the runtime has created another one

    def _name(self) -> str:
        """Return the file's current name, since a rotation renames files; its last name if the file was removed."""
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
        if self._compressed:  # seeking backwards would decompress from the start each time
            self._stream.seek(0)
            yield 0, self._stream.read() or b""
            return
        end = self._stream.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK)
            self._stream.seek(start)
            yield start, self._stream.read(end - start) or b""
            end = start


async def _first(path: Path, tail: int | None, rotated: bool, runs: Runs | None, do: Do) -> _LogFile:
    """Open the first file at the right offset. While the container runs, there may be no file for a moment."""
    while True:
        file = await do(partial(_first_now, path, tail, rotated))
        if file is not None:
            return file
        if runs is None or not await runs():
            raise FileNotFoundError(str(path))
        await asyncio.sleep(_POLL_SECONDS)


def _first_now(path: Path, tail: int | None, rotated: bool) -> _LogFile | None:
    older = rotated_files(path)
    if rotated:
        return _last_lines(path, [path, *reversed(older)], tail)
    # If the log is not at its path, it is being rotated: the container still writes to the newest rotated file.
    return _last_lines(path, [path], tail) or _last_lines(path, older[-1:], tail)


def _last_lines(path: Path, files: Iterable[Path], tail: int | None) -> _LogFile | None:
    """Open the file in which the last lines begin, or the oldest one; `files` are newest first. None without any."""
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
    """Open one of a log's files; None if it was removed or compressed since it was listed."""
    try:
        return _LogFile(path, file)
    except FileNotFoundError:
        return None
