"""Makes mounts on the node (a tmpfs, huge pages, a bind mount), and unmounts them.

A runtime sees these mounts if it is in this process's mount namespace, or in one to which the surrounding mount
propagates. Every function blocks, is safe to repeat, and raises OSError with the place and the attempted call.
"""

import errno
import os
from functools import cache
from pathlib import Path

from syncpod.kernel import libc
from syncpod.kernel.mountinfo import Mount, mount_of, read_mounts

_CAP_SYS_ADMIN = 21


@cache
def may_mount() -> bool:
    """Return whether this process has CAP_SYS_ADMIN. A security module may still refuse a mount."""
    return bool(effective_capabilities(os.getpid()) >> _CAP_SYS_ADMIN & 1)


def effective_capabilities(pid: int) -> int:
    """Return a process's effective capabilities as a bit mask. Raises OSError."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)


def mount_tmpfs(path: Path, size_bytes: int | None, mode: int) -> None:
    """Mount a tmpfs at a directory.

    `size_bytes` is its limit; None = the kernel's default, half of the memory. `mode` is the mode of its root. The
    tmpfs is kept out of swap where the kernel supports that (6.4). Does nothing if something is mounted there already,
    so a repeated call never hides files that were written (emptydir/empty_dir.go, v1.36, setupTmpfs). Raises OSError.
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
    """Mount a hugetlbfs with pages of `page_bytes` at a directory, unless something is mounted there already.

    The machine must have pages of that size. Raises OSError (emptydir/empty_dir.go, v1.36, setupHugepages).
    """
    if not is_mount(path):
        _mount("nodev", path, "hugetlbfs", 0, f"pagesize={page_bytes},mode={mode:o}")


def bind(source: int | Path, target: Path) -> None:
    """Bind a file at the file `target`, or a directory at the directory `target`, without the mounts beneath it.

    The source may be an open descriptor (O_PATH is enough): then exactly the opened file is bound, even if its name now
    means another one. Raises OSError.
    """
    _mount(f"/proc/self/fd/{source}" if isinstance(source, int) else os.fspath(source), target, "", libc.MS_BIND, "")


def share(directory: Path) -> None:
    """Make a directory a shared mount (MS_SHARED): later mounts below it propagate to its peers and slaves.

    If the directory lies on a mount that is not shared, it is first bound to itself, so that nothing outside of it
    changes. Does nothing if the mount is shared already. The directory must be absolute and without symlinks. Raises
    OSError.
    """
    holding = mount_of(read_mounts(), directory)
    if holding is not None and any(tag.startswith("shared:") for tag in holding.propagation):
        return
    if not is_mount(directory):
        bind(directory, directory)
    _mount("none", directory, "", libc.MS_SHARED, "")


def is_bound_to_itself(directory: Path) -> bool:
    """Return whether the only mount at a directory is the directory itself, as `share` makes it.

    The directory must be absolute and without symlinks. Raises OSError.
    """
    found = mounts_at(directory)
    if len(found) != 1:
        return False
    holding = mount_of(read_mounts(), directory.parent)
    if holding is None:
        return False
    itself = Path(holding.root) / directory.relative_to(holding.mount_point)
    return (found[0].device, found[0].root) == (holding.device, str(itself))


def unmount(path: Path) -> None:
    """Unmount everything that is mounted at `path`; do nothing if there is no mount, or no such path.

    Never follows a symlink in the last component. A mount in use is detached, and ends with its last user. Raises
    OSError.
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
                # Without the privilege the kernel answers EPERM even if nothing is mounted.
                return
            else:
                raise _explained(error, "unmount what is", path) from error


def is_mount(path: Path) -> bool:
    """Return whether `path`, a file or a directory, is a mount point; False if it does not exist. Raises OSError.

    Unlike `os.path.ismount`, this also finds bind mounts.
    """
    try:
        return _mount_id(path) != _mount_id(path.parent)
    except (FileNotFoundError, NotADirectoryError):
        return False


def mounts_at(path: Path) -> tuple[Mount, ...]:
    """Return the mounts at exactly this path, the lowest first. The path must be absolute and without symlinks.

    Raises OSError.
    """
    return tuple(mount for mount in read_mounts() if mount.mount_point == str(path))


def mounts_below(directory: Path) -> tuple[Path, ...]:
    """Return every mount point below a directory, the deepest first, so that they can be unmounted in this order.

    The directory must be absolute and without symlinks. Raises OSError.
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
