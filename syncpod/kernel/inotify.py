"""Watches a directory for changes, by inotify(7).

The kernel's notices are reduced to a :class:`DirectoryChange` and the names of removed files. An overflow of the
kernel's queue counts as a change, too.
"""

from __future__ import annotations

import asyncio
import os
import struct
from enum import IntEnum
from pathlib import Path
from typing import Final

from syncpod.kernel.libc import inotify_add_watch, inotify_init

IN_MODIFY: Final = 0x2
IN_ATTRIB: Final = 0x4
IN_CLOSE_WRITE: Final = 0x8
IN_MOVED_FROM: Final = 0x40
IN_MOVED_TO: Final = 0x80
IN_CREATE: Final = 0x100
IN_DELETE: Final = 0x200
IN_DELETE_SELF: Final = 0x400
IN_MOVE_SELF: Final = 0x800
IN_IGNORED: Final = 0x8000
IN_ONLYDIR: Final = 0x1000000
IN_ISDIR: Final = 0x40000000

_COMPLETE: Final = IN_CLOSE_WRITE | IN_MOVED_TO
_GONE: Final = IN_MOVED_FROM | IN_DELETE
_OVER: Final = IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED
_WATCHED: Final = _COMPLETE | _GONE | _OVER | IN_MODIFY | IN_ATTRIB | IN_CREATE
_HEAD: Final = struct.Struct("=iIII")
"""`struct inotify_event` without the name: watch, mask, cookie, length of the name."""
_ROOM: Final = 65536


class DirectoryChange(IntEnum):
    """The kind of change that notices about a directory report; if there are several, the highest counts."""

    NONE = 0
    GONE = 1
    """A file has been removed or moved away: another may be about to take its place."""
    BEGUN = 2
    """A file has been created, or is being written: more follows."""
    COMPLETE = 3
    """A file has been closed after writing, or moved into place: it can be read."""
    OVER = 4
    """The directory itself was moved or removed: nothing more is noticed here."""


class DirectoryWatch:
    """The notices of one directory, not of those below it. `close` ends it; all other methods belong to one loop."""

    def __init__(self, directory: Path) -> None:
        """Begin to watch. Blocks as long as the directory's file system does. Raises OSError."""
        self._gone: dict[str, None] = {}
        self._descriptor = inotify_init(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            inotify_add_watch(self._descriptor, directory, _WATCHED | IN_ONLYDIR)
        except BaseException:
            self.close()
            raise

    async def noticed(self, seconds: float) -> DirectoryChange:
        """Return the change since the last call; if there is none, wait for one for at most `seconds`."""
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, readable.set)
        try:
            async with asyncio.timeout(seconds):
                await readable.wait()
        except TimeoutError:
            return DirectoryChange.NONE
        finally:
            loop.remove_reader(self._descriptor)
        return self._read()

    def take_gone(self) -> tuple[str, ...]:
        """Return the names of files that were removed or moved away since the last call; such a file may exist again.

        Hidden files are not among them.
        """
        gone, self._gone = tuple(self._gone), {}
        return gone

    def close(self) -> None:
        """End the watch."""
        os.close(self._descriptor)

    def _read(self) -> DirectoryChange:
        found = DirectoryChange.NONE
        while True:
            try:
                notices = os.read(self._descriptor, _ROOM)
            except BlockingIOError:
                return found
            change, gone = parsed(notices)
            found = max(found, change)
            self._gone.update(dict.fromkeys(os.fsdecode(name) for name in gone if not name.startswith(b".")))


def parsed(notices: bytes) -> tuple[DirectoryChange, tuple[bytes, ...]]:
    """Return the change that a buffer of `struct inotify_event` reports, and the names of removed files.

    An overflow of the kernel's queue counts as :attr:`DirectoryChange.BEGUN`.
    """
    found, at, gone = DirectoryChange.NONE, 0, []
    while at < len(notices):
        _, mask, _, length = _HEAD.unpack_from(notices, at)
        at += _HEAD.size + length
        if mask & _GONE and not mask & IN_ISDIR:
            gone.append(notices[at - length : at].rstrip(b"\0"))
        found = max(found, DirectoryChange.OVER if mask & _OVER else _kind(mask))
    return found, tuple(gone)


def _kind(mask: int) -> DirectoryChange:
    if mask & _COMPLETE:
        return DirectoryChange.COMPLETE
    return DirectoryChange.GONE if mask & _GONE else DirectoryChange.BEGUN
