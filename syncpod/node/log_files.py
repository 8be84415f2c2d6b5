"""The log files of one container instance: the current one and the rotated ones.

Names are the kubelet's (logs/container_log_manager.go, v1.36): ``0.log`` is current, ``0.log.<YYYYMMDD-HHMMSS>`` was
rotated at that time, ``.gz`` is compressed, ``.tmp`` is being compressed.

A pod that mounts the node's log directory may put anything under any of these names, while root reads, renames and
compresses the logs. So a log's directory is opened once, without following a link, and only regular files in it count.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from syncpod.kernel.beneath import open_directory, open_without_links

COMPRESSED: Final = ".gz"
UNFINISHED: Final = ".tmp"
_DEPTH: Final = 3
"""A log lies at ``<pod>/<container>/<n>.log`` below the node's log directory, which is trusted."""


class LogDirectory:
    """The open directory of one container's logs. Everything blocks, and raises OSError."""

    def __init__(self, opened: int) -> None:
        """Use an open directory, which its owner closes."""
        self._directory = opened

    def names(self, log: str) -> list[str]:
        """Return the names of the log's other files of any kind, sorted."""
        there = os.listdir(self._directory)  # noqa: PTH208  # an open directory has no path
        return sorted(name for name in there if name.startswith(f"{log}."))

    def rotated(self, log: str) -> list[str]:
        """Return the names of the log's rotated files, compressed or not; oldest first, each once."""
        found: dict[str, str] = {}
        for name in self.names(log):  # a file sorts before its compressed form
            if not name.endswith(UNFINISHED) and self.is_file(name):
                found.setdefault(name.removesuffix(COMPRESSED), name)
        return [found[name] for name in sorted(found)]

    def is_there(self, name: str) -> bool:
        """Return whether anything has this name, even a dangling link."""
        try:
            self._stat(name)
        except FileNotFoundError:
            return False
        return True

    def is_file(self, name: str) -> bool:
        """Return whether this is a regular file, and not a link to one."""
        try:
            return stat.S_ISREG(self._stat(name).st_mode)
        except FileNotFoundError:
            return False

    def open(self, name: str) -> int:
        """Open a regular file for reading, unless it has a second name; the caller closes it."""
        _check_file(name, self._stat(name))  # checked before the opening, since opening a device may have effects
        opened = open_without_links(self._directory, name, os.O_RDONLY)
        try:
            _check_file(name, os.fstat(opened))
        except BaseException:
            os.close(opened)
            raise
        return opened

    def create(self, name: str) -> int:
        """Create a file for writing, and return it open. The file must not exist."""
        return open_without_links(self._directory, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def remove(self, name: str) -> None:
        """Remove a file of any kind except a directory. Does nothing if the name does not exist."""
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(name, dir_fd=self._directory)

    def rename(self, name: str, to: str) -> None:
        """Rename a file, replacing another."""
        os.rename(name, to, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def link(self, name: str, to: str) -> None:
        """Give a file a second name, which must be free."""
        os.link(name, to, src_dir_fd=self._directory, dst_dir_fd=self._directory, follow_symlinks=False)

    def _stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._directory, follow_symlinks=False)


def _check_file(name: str, found: os.stat_result) -> None:
    """Raise OSError unless this is a regular file that has no second name elsewhere."""
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", name)
    if found.st_nlink > 1:
        raise OSError(errno.EINVAL, "not a regular file with one name", name)


@contextlib.contextmanager
def log_directory(path: Path) -> Iterator[LogDirectory]:
    """Yield the open directory of the log at `path`; no link on its last two parts is followed. Raises OSError."""
    if not path.parents:
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    trusted = path.parents[min(_DEPTH, len(path.parents)) - 1]  # a runtime may report a path too short for a log
    root = open_directory(trusted)
    try:
        relative = path.parent.relative_to(trusted)
        opened = open_without_links(root, str(relative), os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(root)
    try:
        yield LogDirectory(opened)
    finally:
        os.close(opened)


def rotated_files(path: Path) -> list[Path]:
    """Return the rotated files of a log; oldest first, each once; none without a directory.

    Blocks. Raises OSError if a link is in the way.
    """
    try:
        with log_directory(path) as directory:
            return [path.with_name(name) for name in directory.rotated(path.name)]
    except FileNotFoundError:
        return []


def open_log_file(path: Path) -> int:
    """Open one of a container's log files for reading; no link is followed. Blocks. Raises OSError."""
    with log_directory(path) as directory:
        return directory.open(path.name)


def is_being_written(descriptor: int) -> bool:
    """Return whether any process has a file open for writing; True if that is not known.

    `descriptor` is open for reading. The kernel grants a read lease only on a file that no process has open for
    writing. This function takes one and gives it back at once. A process that opens the file in between waits until
    then; the kernel's signal about it is ignored.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    return False
