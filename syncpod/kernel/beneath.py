"""Opens files in a directory that others write to, without ever leaving that directory.

A container may replace a directory by a symlink at any moment. So no path is checked first and opened later: every step
opens one entry of a directory that is already open.
"""

import errno
import os
import stat
from collections import deque
from pathlib import Path

from syncpod.kernel import libc

_O_PATH = os.O_PATH | os.O_CLOEXEC
_RESOLVE_BENEATH = 0x08 | 0x02
"""RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS: `..`, absolute symlinks and /proc's own links cannot lead out."""
_RACES = 128
"""Maximum number of tries when the kernel reports a concurrent rename (EAGAIN)."""
_LINKS = 40
"""The kernel's own limit of symlinks on one path."""
_DEPTH = 128
"""Maximum number of directories that the walk keeps open. openat2 needs no such limit."""


class LeadsOut(OSError):
    """The path, or a symlink on it, leads out of the directory that it is beneath."""


def open_directory(root: Path) -> int:
    """Open a trusted directory to start from; symlinks on the way to it are followed. Raises OSError."""
    return os.open(root, _O_PATH | os.O_DIRECTORY)


def open_beneath(root: int, relative: str) -> int:
    """Return an O_PATH descriptor of the entry `relative` beneath the open directory `root`; the caller closes it.

    Symlinks are followed where they stay beneath `root`. Raises :class:`LeadsOut`, FileNotFoundError, and OSError.
    """
    try:
        return _openat2(root, relative)
    except OSError as error:
        # An old seccomp filter answers EPERM to a call that it does not know.
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        return walk_beneath(root, relative)


def open_without_links(root: int, relative: str, flags: int, mode: int = 0) -> int:
    """Open the entry `relative` beneath the open directory `root`, following no symlink at all; the caller closes it.

    `flags` and `mode` are those of open(2); opening a FIFO or a device does not block. Use it for our own files in
    directories that others may write to. Raises :class:`LeadsOut`, OSError: ELOOP or ENOTDIR if a symlink is in the
    way.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    *above, name = [part for part in relative.split("/") if part not in ("", ".")] or ["."]
    if ".." in (*above, name):
        raise LeadsOut(errno.EXDEV, "may lead out of its directory", relative)
    directory = os.dup(root)
    try:
        for part in above:
            below = os.open(part, _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = below
        return os.open(name, flags, mode, dir_fd=directory)
    finally:
        os.close(directory)


def make_beneath(root: int, relative: str, mode: int) -> int:
    """Make a directory beneath `root`, and its missing parents, each with `mode`; return its descriptor.

    `relative` must not contain `..`. Each directory is made inside an open one. So no symlink among the new directories
    is followed, and the target of a dangling symlink is never made (subpath_linux.go, v1.36, SafeMakeDir; difference:
    two callers that make the same directory at the same time both succeed). Raises the errors of :func:`open_beneath`,
    and FileExistsError if something other than a directory is in the way.
    """
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise LeadsOut(errno.EXDEV, "may lead out of its directory", relative)
    parent, done = _existing_part(root, parts)
    try:
        for part in parts[done:]:
            child = _make_directory(parent, part, mode)
            os.close(parent)
            parent = child
    except BaseException:
        os.close(parent)
        raise
    return parent


def read_beneath(root: int, relative: str, limit_bytes: int) -> bytes:
    """Return the content of a regular file beneath `root`.

    Raises the errors of :func:`open_beneath`, and OSError with EFBIG above the limit.
    """
    opened = open_beneath(root, relative)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            # Opening a named pipe would block.
            raise OSError(errno.EINVAL, "must be a regular file", relative)
        file = os.open(f"/proc/self/fd/{opened}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(opened)
    with os.fdopen(file, "rb") as content:
        text = content.read(limit_bytes + 1)
    if len(text) > limit_bytes:
        raise OSError(errno.EFBIG, f"must have no more than {limit_bytes} bytes", relative)
    return text


def walk_beneath(root: int, relative: str) -> int:
    """Open a path as :func:`open_beneath` does, but entry by entry, on a kernel without openat2 (before 5.6).

    `..` goes back to the directory before it on the path, which is still open, so a rename does not matter.
    """
    if relative.startswith("/"):
        raise LeadsOut(errno.EXDEV, "leads out of its directory", relative)
    pending = deque(relative.split("/"))
    held = [os.dup(root)]
    links = 0
    try:
        while pending:
            name = pending.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                if len(held) == 1:
                    raise LeadsOut(errno.EXDEV, "leads out of its directory", relative)
                os.close(held.pop())
                continue
            child = os.open(name, _O_PATH | os.O_NOFOLLOW, dir_fd=held[-1])
            held.append(child)
            if stat.S_ISLNK(os.fstat(child).st_mode):
                target = os.readlink("", dir_fd=child)
                os.close(held.pop())
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), relative)
                if target.startswith("/"):
                    raise LeadsOut(errno.EXDEV, "leads out of its directory", relative)
                pending.extendleft(reversed(target.split("/")))
            elif len(held) > _DEPTH:
                raise OSError(errno.ENAMETOOLONG, f"has more than {_DEPTH} directories", relative)
        return held.pop()
    finally:
        for descriptor in held:
            os.close(descriptor)


def _openat2(root: int, relative: str) -> int:
    for _ in range(_RACES):
        try:
            return libc.openat2(root, relative or ".", _O_PATH, _RESOLVE_BENEATH)
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise LeadsOut(errno.EXDEV, "leads out of its directory", relative) from error
            if error.errno != errno.EAGAIN:
                raise
    raise OSError(errno.EAGAIN, "is being renamed all the time", relative)


def _existing_part(root: int, parts: list[str]) -> tuple[int, int]:
    """Open the deepest existing directory of the path; return it and the number of parts that lead to it."""
    found, done = os.dup(root), 0
    for count in range(1, len(parts) + 1):
        try:
            deeper = open_beneath(root, "/".join(parts[:count]))
        except FileNotFoundError:
            break
        except BaseException:
            os.close(found)
            raise
        os.close(found)
        found, done = deeper, count
    return found, done


def _make_directory(parent: int, name: str, mode: int) -> int:
    """Make a directory in an open one, unless it exists; return its descriptor."""
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        made = False
    else:
        made = True
    try:
        child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except NotADirectoryError as error:
        raise FileExistsError(errno.EEXIST, "must be a directory, and is something else", name) from error
    if made:
        # Override the umask. An existing directory keeps the permissions that its owner gave it.
        os.fchmod(child, mode)
    return child
