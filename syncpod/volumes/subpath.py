"""Parts of volumes (subPath) that are mounted into a container in place of the whole volume.

A container that already has the volume can replace a path in it between the node's check and the runtime's mount. So
the node opens the part once, beneath the volume, and bind-mounts exactly this file or directory at a path outside of
the volume, which the runtime gets. Everything blocks, and is safe to repeat.
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from syncpod.kernel.beneath import make_beneath, open_beneath, open_directory
from syncpod.kernel.mounting import bind, unmount

_OURS = 0o750
_OURS_FILE = 0o640


class SubPathRefused(Exception):
    """A container cannot get a part of a volume. The text is the kubelet's, and shows nothing of the node."""


@dataclass(frozen=True)
class SubPath:
    """A part of a volume that one of a container's mounts names."""

    volume: str
    container: str
    root: Path
    """The volume on the node."""
    relative: str
    """The part's path beneath `root`: relative, without `..`."""
    place: Path
    """The path at which the part is bound: ``<pod directory>/volume-subpaths/<volume>/<container>/<index of the
    mount>``."""


def prepare_sub_path(sub_path: SubPath, *, may_mount: bool) -> Path:
    """Make the part's missing directories, and return the path for the runtime to mount.

    New directories get the volume's permissions. If the node may mount, the part is bound at `place`, replacing any
    earlier part there, and the path is `place`. Otherwise the path is the part's own, with symlinks resolved. A
    container that shares the volume could still change that path before the runtime mounts it. So this is only for a
    runtime that has no more permissions than this process.

    Mirrors subpath_linux.go, v1.36, SafeMakeDir and PrepareSafeSubpath; difference: an absolute symlink is refused even
    if, on the node, it leads back into the volume. Raises :class:`SubPathRefused`, whose cause is the error in detail.
    """
    opened = _open(sub_path)
    try:
        if not may_mount:
            return Path(f"/proc/self/fd/{opened}").readlink()
        _bind(opened, sub_path.place)
    except OSError as error:
        raise refused_part("prepare subPath", sub_path) from error
    finally:
        os.close(opened)
    return sub_path.place


def clear_sub_paths(directory: Path, container: str | None = None) -> None:
    """Unmount the parts that are bound for one container of a pod, or for all, below its ``volume-subpaths``.

    Call it for a container before its next instance, and for a pod when it has no containers left. Only empty
    directories and the mount points themselves are removed, and nothing in a volume. Raises OSError.
    """
    for volume in _entries(directory):
        for owner in _entries(volume):
            if container is not None and owner.name != container:
                continue
            for place in _entries(owner):
                _unbind(place)
            owner.rmdir()
        _remove_if_empty(volume)
    _remove_if_empty(directory)


def _open(sub_path: SubPath) -> int:
    """Open the part, after making its missing directories, and return its descriptor."""
    try:
        root = open_directory(sub_path.root)
    except OSError as error:
        raise refused_part("prepare subPath", sub_path) from error
    try:
        return open_beneath(root, sub_path.relative)
    except FileNotFoundError:
        return _make(root, sub_path)
    except OSError as error:
        raise refused_part("prepare subPath", sub_path) from error
    finally:
        os.close(root)


def _make(root: int, sub_path: SubPath) -> int:
    try:
        return make_beneath(root, sub_path.relative, stat.S_IMODE(os.fstat(root).st_mode))
    except OSError as error:
        raise refused_part("create subPath directory", sub_path) from error


def refused_part(tried: str, sub_path: SubPath) -> SubPathRefused:
    """Return the refusal in the kubelet's words: what failed, without the reason, which could reveal node files."""
    return SubPathRefused(f'failed to {tried} for volumeMount "{sub_path.volume}" of container "{sub_path.container}"')


def _bind(opened: int, place: Path) -> None:
    _unbind(place)
    for directory in (place.parents[2], place.parents[1], place.parents[0]):
        directory.mkdir(mode=_OURS, exist_ok=True)
    if stat.S_ISDIR(os.fstat(opened).st_mode):
        place.mkdir(mode=_OURS)
    else:
        # An empty file can be the mount point of everything but a directory: also of a socket or a device.
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OURS_FILE))
    bind(opened, place)


def _unbind(place: Path) -> None:
    unmount(place)
    try:
        if place.is_dir() and not place.is_symlink():
            place.rmdir()
        else:
            place.unlink()
    except FileNotFoundError:
        return


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:
        return []


def _remove_if_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
