"""Removes a directory tree that containers wrote: however deep, never through a symlink, never into a mount."""

import errno
import os
import stat
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StillMounted(OSError):
    """Something is mounted in the tree. The files behind that mount are not ours to remove."""


def remove_tree(path: Path) -> None:
    """Remove a file, symlink or directory tree; do nothing if it is gone. Safe to repeat after a crash halfway.

    Symlinks are removed, never followed. Each directory is opened without following symlinks, and must be on the tree's
    own mount, before anything in it is touched; so a container cannot redirect the removal. A directory of ours without
    permissions is given them first. The depth of the tree is not limited: directories are moved up to the top and
    emptied there, so neither the stack nor the number of open files grows. Raises :class:`StillMounted` naming the
    place, and OSError.
    """
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not _unlinked(parent, path.name):
            _empty(parent, path)
            os.rmdir(path.name, dir_fd=parent)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise StillMounted(f"something is mounted in {path}, at or below {error.filename}") from error
        raise
    finally:
        os.close(parent)


def _unlinked(directory: int, name: str) -> bool:
    """Remove an entry unless it is a directory; return whether it is gone."""
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            return False
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
    return True


def _empty(parent: int, path: Path) -> None:
    """Remove everything in a directory: move directories up from below until none is left."""
    _let_us_in(parent, path.name)
    top = os.open(path.name, _DIRECTORY, dir_fd=parent)
    try:
        mount = _mount_of(top)
        if mount != _mount_of(parent):
            raise StillMounted(f"{path} is a mount point")
        moved = 0
        while directories := [name for name in _entries(top) if not _unlinked(top, name)]:
            for name in directories:
                moved = _lift(top, name, mount, path, moved)
    finally:
        os.close(top)


def _lift(top: int, name: str, mount: str, path: Path, moved: int) -> int:
    """Move the directories in a directory at the tree's top up to the top, remove its other entries, then remove it."""
    _let_us_in(top, name)
    child = os.open(name, _DIRECTORY, dir_fd=top)
    try:
        if _mount_of(child) != mount:
            raise StillMounted(f"something is mounted in {path}, at or below its directory {name}")
        for entry in _entries(child):
            if _unlinked(child, entry):
                continue
            while True:
                lifted = f".removed-{moved}"
                moved += 1
                if not _exists(top, lifted):
                    break
            _let_us_in(child, entry)  # moving a directory writes its ".."
            os.rename(entry, lifted, src_dir_fd=child, dst_dir_fd=top)
    finally:
        os.close(child)
    os.rmdir(name, dir_fd=top)
    return moved


def _let_us_in(directory: int, name: str) -> None:
    """Give the owner access to a directory: the kernel makes an overlay's work directory with mode 000."""
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & 0o700 != 0o700:
        os.chmod(name, stat.S_IMODE(found.st_mode) | 0o700, dir_fd=directory)


def _entries(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _mount_of(descriptor: int) -> str:
    """Return the id of an open directory's mount. A bind mount of its file system has another id."""
    for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines():
        if line.startswith("mnt_id:"):
            return line.partition(":")[2].strip()
    raise StillMounted("the kernel does not say which mount a directory lies in")
