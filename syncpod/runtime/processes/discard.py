"""Removing a container's directory, with the layers that its mount namespace has left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import stat


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove a file, or a directory and all in it; nothing happens if it is gone. Raises OSError. Safe to repeat.

    An overlay leaves directories of mode 000 behind, and a container may have taken away its own access to what it
    wrote: access is given back first, which is the owner's to do. Symbolic links are removed, never followed, and
    something that somebody has mounted there is not entered. Neither the stack nor the descriptors nor a path grow with
    the tree's depth, which a container decides: what lies deeper is moved up to the top, and emptied there in turn.
    """
    where, name = os.path.split(os.path.abspath(path))  # noqa: PTH100
    with contextlib.suppress(FileNotFoundError):
        parent = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if not _removed(name, parent):
                _empty(name, parent)
                os.rmdir(name, dir_fd=parent)
        finally:
            os.close(parent)


def _removed(name: str, parent: int) -> bool:
    """Remove an entry unless it is a directory with something in it; return whether it is gone."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
        else:
            os.rmdir(name, dir_fd=parent)  # The kernel looks for a mount here before it looks for entries.
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise OSError(errno.EBUSY, "something is mounted here; it is left alone", name) from error
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _empty(name: str, parent: int) -> None:
    """Remove everything in a directory, a level at a time."""
    top = _opened(name, parent)
    try:
        lifted = 0
        while names := [each for each in os.listdir(top) if not _removed(each, top)]:  # noqa: PTH208 - by descriptor
            for each in names:
                lifted = _empty_into(top, each, lifted)
    finally:
        os.close(top)


def _empty_into(top: int, name: str, lifted: int) -> int:
    """Remove one of the top's directories, its own directories moved up; return the number of the next to be moved."""
    child = _opened(name, top)
    try:
        for entry in os.listdir(child):  # noqa: PTH208 - by descriptor: nobody can put a link in its way
            if _removed(entry, child):
                continue
            _let_us_in(entry, child)  # A directory's own `..` is written when it moves.
            while not _moved(entry, child, f".lifted-{lifted}", top):
                lifted += 1
            lifted += 1
    finally:
        os.close(child)
    os.rmdir(name, dir_fd=top)
    return lifted


def _moved(name: str, source: int, new: str, target: int) -> bool:
    """Move a directory; False where one of that name has something in it. An empty one gives way, as all here shall."""
    try:
        os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _opened(name: str, parent: int) -> int:
    _let_us_in(name, parent)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)


def _let_us_in(name: str, parent: int) -> None:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)
