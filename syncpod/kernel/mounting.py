"""Mounting on the node: a tmpfs, huge pages, a bind mount, and unmounting.

A mount made here is seen by a runtime in the same mount namespace, or in one that shares the mount that holds it.
Everything blocks, is safe to repeat, and raises OSError with the place and what was tried.
"""

import errno
import os
from functools import cache
from pathlib import Path

from syncpod.kernel import libc
from syncpod.kernel.mountinfo import Mount, read_mounts

_CAP_SYS_ADMIN = 21


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
    _mount(f"/proc/self/fd/{source}" if isinstance(source, int) else os.fspath(source), target, "", libc.MS_BIND, "")


def unmount(path: Path) -> None:
    """Take away whatever is mounted at `path`, all layers of it; nothing mounted, or no such path, is success.

    Never follows a symlink at the path's end. What is in use goes as soon as its last user does. Raises OSError.
    """
    flags = libc.UMOUNT_NOFOLLOW
    while True:
        try:
            libc.unmount(path, flags)
        except OSError as error:
            if error.errno == errno.EBUSY and not flags & libc.MNT_DETACH:
                flags |= libc.MNT_DETACH
            elif error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                return
            elif error.errno == errno.EPERM and not is_mount(path):
                # Without the privilege the kernel does not even say whether there is anything.
                return
            else:
                raise _explained(error, "unmount what is", path) from error


def is_mount(path: Path) -> bool:
    """Say whether something is mounted at `path`, a file or a directory; no such path is none. Raises OSError.

    A bind mount counts as well, which `os.path.ismount` cannot tell from its file system.
    """
    try:
        return _mount_id(path) != _mount_id(path.parent)
    except (FileNotFoundError, NotADirectoryError):
        return False


def mounts_at(path: Path) -> tuple[Mount, ...]:
    """Return what is mounted at exactly this path, an absolute one without symlinks, the lowest first.

    Raises OSError.
    """
    return tuple(mount for mount in read_mounts() if mount.mount_point == str(path))


def mounts_below(directory: Path) -> tuple[Path, ...]:
    """Return each place below a directory, an absolute one without symlinks, at which something is mounted.

    The deepest first, so that they may be taken away in this order. Raises OSError.
    """
    places = {Path(mount.mount_point) for mount in read_mounts()}
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
    try:
        libc.mount(source, target, kind, flags, options)
    except OSError as error:
        raise _explained(error, f"mount {kind or source}", target) from error


def _explained(error: OSError, tried: str, path: Path) -> OSError:
    return OSError(error.errno, f"cannot {tried} at this place: {error.strerror}", str(path))
