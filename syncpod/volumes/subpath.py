"""Parts of volumes (subPath): what a container is given in place of the whole volume.

A container that has the volume already can change what a path in it means, between the node's look and the runtime's
mount. So the part is opened once, beneath the volume, and that very file or directory is bound at a place of the
node's own, which the runtime is told. Everything blocks, and is safe to repeat.
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
    """A part of a volume cannot be given to a container; the text is the kubelet's, and says nothing of the node."""


@dataclass(frozen=True)
class SubPath:
    """A part of a volume, wanted by one of a container's mounts."""

    volume: str
    container: str
    root: Path
    """The volume on the node."""
    relative: str
    """Of the part, beneath `root`: neither absolute nor with `..`."""
    place: Path
    """Where it is bound: ``<pod directory>/volume-subpaths/<volume>/<container>/<index of the mount>``."""


def prepare_sub_path(sub_path: SubPath, *, may_mount: bool) -> Path:
    """Return the path that the runtime is to mount, after making the directories of it that are missing.

    They get the volume's permissions. Where the node may mount, the path is `place`, at which the part is bound anew;
    what was bound there before is taken away. Elsewhere it is the part's own path as it was found, with no symlink in
    it: between this and the runtime's mount a container that shares the volume could still change it, so it is only for
    a runtime that may see no more than this process.

    Mirrors subpath_linux.go, v1.36, SafeMakeDir and PrepareSafeSubpath; difference: an absolute symlink is refused even
    if it leads, by the node's paths, back into the volume. Raises :class:`SubPathRefused`, caused by what was wrong.
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
    """Take away what was bound for a container, or for all of a pod's, below its ``volume-subpaths`` directory.

    Call it for a container before its next instance, for a pod when no container of it is left. Nothing in a volume is
    touched: only empty directories and the files that were bound over are removed. Raises OSError.
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
    """Return the part, opened, or made and opened where it is missing."""
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
    """Return the refusal in the kubelet's words: what failed, and not why, which could tell of files of the node."""
    return SubPathRefused(f'failed to {tried} for volumeMount "{sub_path.volume}" of container "{sub_path.container}"')


def _bind(opened: int, place: Path) -> None:
    _unbind(place)
    for directory in (place.parents[2], place.parents[1], place.parents[0]):
        directory.mkdir(mode=_OURS, exist_ok=True)
    if stat.S_ISDIR(os.fstat(opened).st_mode):
        place.mkdir(mode=_OURS)
    else:
        # A file will do for whatever is no directory: a socket, a device.
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
