"""Removing a container's directory, with the layers that its mount namespace has left behind."""

from __future__ import annotations

import contextlib
import os
import stat


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove a directory and all in it; nothing happens if it is gone. Raises OSError.

    An overlay leaves directories of mode 000 behind, and a container may have taken away its own access to what it
    wrote: access is given back first, which is the owner's to do. Symbolic links are removed, never followed, and
    another file system (something mounted there by somebody) is not entered.
    """
    with contextlib.suppress(FileNotFoundError):
        device = os.lstat(path).st_dev
        parent = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY)  # noqa: PTH100, PTH120
        try:
            _remove(os.path.basename(os.path.abspath(path)), parent, device)  # noqa: PTH100, PTH119
        finally:
            os.close(parent)


def _remove(name: str, parent: int, device: int) -> None:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=parent)
        return
    if found.st_dev != device:
        raise OSError(None, "another file system is mounted here; it is left alone", name)
    if stat.S_IMODE(found.st_mode) & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        for entry in os.listdir(descriptor):  # noqa: PTH208 - by descriptor: nobody can put a link in its way
            _remove(entry, descriptor, device)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)
