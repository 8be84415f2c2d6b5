"""Opening what lies in a directory that others write to, so that nothing in it leads out of it.

A container may put a symlink where a directory was, at any moment. So nothing is looked at by name and then used by
name: every step goes from an open directory to an open entry of it.
"""

import errno
import os
import stat
from collections import deque
from pathlib import Path

from syncpod.kernel import libc

_O_PATH = os.O_PATH | os.O_CLOEXEC
_RESOLVE_BENEATH = 0x08 | 0x02
"""Never above the directory, not by `..`, not by an absolute symlink, and by none of /proc's."""
_RACES = 128
"""How often the kernel may say that somebody renamed something meanwhile."""
_LINKS = 40
"""The kernel's own limit of symlinks on one path."""
_DEPTH = 128
"""Directories that the walk keeps open; the kernel's own needs none."""


class LeadsOut(OSError):
    """The path, or a symlink on it, leads out of the directory that it is beneath."""


def open_directory(root: Path) -> int:
    """Return a directory that is ours to name, open as a place to begin; symlinks on the way to it are followed."""
    return os.open(root, _O_PATH | os.O_DIRECTORY)


def open_beneath(root: int, relative: str) -> int:
    """Return an O_PATH descriptor of what `relative` names beneath the open directory `root`; the caller closes it.

    Symlinks are followed where they stay beneath `root`. Raises :class:`LeadsOut`, FileNotFoundError, and OSError.
    """
    try:
        return _openat2(root, relative)
    except OSError as error:
        # EPERM is what an old seccomp filter says of a call that it does not know.
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        return walk_beneath(root, relative)


def make_beneath(root: int, relative: str, mode: int) -> int:
    """Make a directory beneath `root`, and those on the way that are missing, each with `mode`; return it open.

    `relative` has no `..`. What is made is made in an open directory, so no symlink is followed from there on; one that
    leads nowhere is not followed to make its target (subpath_linux.go, v1.36, SafeMakeDir; difference: two who make the
    same directory at the same time both succeed). Raises as :func:`open_beneath`, and FileExistsError where something
    else stands in the way.
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
    """Return what a regular file beneath `root` holds. Raises as :func:`open_beneath`, EFBIG above the limit."""
    opened = open_beneath(root, relative)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            # A named pipe would have to be waited for.
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
    """Do what :func:`open_beneath` does on a kernel without openat2 (before 5.6), entry by entry.

    `..` goes to the directory through which the path came, which is still open, whatever has become of its name.
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
    """Return the deepest directory of the path that is there, open, and how many parts lead to it."""
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
    """Make a directory in an open one, or find it made, and return it open."""
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
        # Whatever the umask was. What was there keeps the permissions that its owner gave it.
        os.fchmod(child, mode)
    return child
