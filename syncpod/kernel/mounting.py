"""Mounting on the node: a tmpfs, a bind mount, and taking either away, by the system calls that Python lacks.

A mount made here is seen by a runtime in the same mount namespace, or in one that shares the mount that holds it.
Everything blocks, is safe to repeat, and raises OSError with the place and what was tried.
"""

import ctypes
import errno
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_MS_BIND = 0x1000
_MNT_DETACH = 0x2
_UMOUNT_NOFOLLOW = 0x8
_CAP_SYS_ADMIN = 21

_OCTAL = re.compile(rb"\\([0-7]{3})")
"""As mountinfo writes spaces, tabs, line ends and backslashes."""

_libc = ctypes.CDLL(None, use_errno=True)


@cache
def may_mount() -> bool:
    """Say whether this process may mount: it has CAP_SYS_ADMIN. What a security module adds shows when it is tried."""
    return bool(effective_capabilities(os.getpid()) >> _CAP_SYS_ADMIN & 1)


def effective_capabilities(pid: int) -> int:
    """Return a process's effective capabilities, a bit each. Raises OSError."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)


def mount_tmpfs(path: Path, size_bytes: int | None, mode: int) -> None:
    """Mount a tmpfs of that size (None: the kernel's default, half of the memory) and root permissions at a directory.

    It is kept out of swap where the kernel can (6.4). Does nothing if a file system is mounted there already, so that a
    repeat never lays an empty one over what was written (emptydir/empty_dir.go, v1.36, setupTmpfs). Raises OSError.
    """
    if is_mount(path):
        return
    options = [f"mode={mode:o}"]
    if size_bytes:
        options.append(f"size={size_bytes}")
    try:
        _mount("tmpfs", path, "tmpfs", 0, ",".join((*options, "noswap")))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _mount("tmpfs", path, "tmpfs", 0, ",".join(options))


def mount_hugetlbfs(path: Path, page_bytes: int, mode: int) -> None:
    """Mount a file system of huge pages, of that many bytes each, at a directory; what is there already stays.

    The machine must have pages of that size. Raises OSError (emptydir/empty_dir.go, v1.36, setupHugepages).
    """
    if not is_mount(path):
        _mount("nodev", path, "hugetlbfs", 0, f"pagesize={page_bytes},mode={mode:o}")


def bind(source: int | Path, target: Path) -> None:
    """Show a file or directory at `target`, which must be of the same sort, without what is mounted beneath it.

    A source that is an open descriptor (O_PATH will do) is exactly what it was when it was opened, whatever has become
    of its name. Raises OSError.
    """
    _mount(f"/proc/self/fd/{source}" if isinstance(source, int) else os.fspath(source), target, "", _MS_BIND, "")


def unmount(path: Path) -> None:
    """Take away whatever is mounted at `path`, all layers of it; nothing mounted, or no such path, is success.

    Never follows a symlink at the path's end. What is in use goes as soon as its last user does. Raises OSError.
    """
    flags = _UMOUNT_NOFOLLOW
    while True:
        if _libc.umount2(os.fsencode(path), ctypes.c_int(flags)) == 0:
            continue
        number = ctypes.get_errno()
        if number == errno.EBUSY and not flags & _MNT_DETACH:
            flags |= _MNT_DETACH
        elif number in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
            return
        elif number == errno.EPERM and not is_mount(path):
            # Without the privilege the kernel does not even say whether there is anything.
            return
        else:
            raise _error(number, "unmount what is", path)


def is_mount(path: Path) -> bool:
    """Say whether something is mounted at `path`, a file or a directory; no such path is none. Raises OSError.

    A bind mount counts as well, which `os.path.ismount` cannot tell from its file system.
    """
    try:
        return _mount_id(path) != _mount_id(path.parent)
    except (FileNotFoundError, NotADirectoryError):
        return False


@dataclass(frozen=True, slots=True)
class MountPoint:
    """Something that is mounted: which part of which sort of file system."""

    root: str
    """The path in the file system that is shown; ``/`` is all of it."""
    kind: str
    """``tmpfs``, ``ext4`` and so on."""


def mounts_at(path: Path) -> tuple[MountPoint, ...]:
    """Return what is mounted at exactly this path, an absolute one without symlinks, the lowest first.

    Raises OSError.
    """
    wanted = re.sub(rb"[ \t\n\\]", lambda found: b"\\%03o" % found[0][0], os.fsencode(path))
    found = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.split(b" ")
        if fields[4] == wanted:
            kind = fields[fields.index(b"-") + 1]
            found.append(MountPoint(os.fsdecode(fields[3]), os.fsdecode(kind)))
    return tuple(found)


def mounts_below(directory: Path) -> tuple[Path, ...]:
    """Return each place below a directory, an absolute one without symlinks, at which something is mounted.

    The deepest first, so that they may be taken away in this order. Raises OSError.
    """
    fields = (line.split(b" ") for line in Path("/proc/self/mountinfo").read_bytes().splitlines())
    places = {Path(os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), field[4]))) for field in fields}
    below = (place for place in places if directory in place.parents)
    return tuple(sorted(below, key=lambda place: (-len(place.parts), place)))


def _mount_id(path: Path) -> str:
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    finally:
        os.close(descriptor)
    return next(line.partition(":")[2].strip() for line in lines if line.startswith("mnt_id:"))


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    if result < 0:
        raise _error(ctypes.get_errno(), f"mount {kind or source}", target)


def _error(number: int, tried: str, path: Path) -> OSError:
    return OSError(number, f"cannot {tried} at this place: {os.strerror(number)}", str(path))
