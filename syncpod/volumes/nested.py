"""Mount points inside a volume of files. The volume is read-only in containers, so no runtime could make them."""

import os
import posixpath
from collections.abc import Collection
from pathlib import Path

from syncpod.kernel.beneath import make_beneath, open_directory
from syncpod.pod import Pod
from syncpod.volumes.payload import PayloadError

_MODE = 0o755


def nested_mount_points(pod: Pod, volume: str) -> tuple[str, ...]:
    """Return the directories, relative to a volume, that mounts inside the volume need; each once.

    If mounts lie inside one another, only the outermost counts: the inner ones lie in another volume. Raises
    PayloadError for a mount that would lead out of the volume, or into its own files (nested_volumes.go, v1.36,
    getNestedMountpoints; difference: in the kubelet, a name that begins with `..` keeps the volume from ever being
    written).
    """
    found: dict[str, None] = {}
    for container in (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers):
        places = [(mount.name, _clean(mount.mount_path)) for mount in container.volume_mounts]
        inside = sorted(place for _, place in places)
        for place in [place for name, place in places if name == volume]:
            if place.startswith("../"):
                raise PayloadError(f"invalid container mount point {place}")
            found |= dict.fromkeys(_outermost(inside, f"{place}/"))
    return tuple(found)


def make_nested_mount_points(volume: Path, relative: Collection[str]) -> None:
    """Make these directories in a volume, with their parents. Blocks; safe to repeat.

    In a new volume they are made before its files. The link to a file or directory is then left out if a mount point
    has its name: the mount would hide it anyway. In a volume that has files already, this link is followed, but never
    out of the volume. Raises OSError (nested_volumes.go, v1.36, MakeNestedMountpoints).
    """
    if not relative:
        return
    root = open_directory(volume)
    try:
        for place in relative:
            try:
                os.close(make_beneath(root, place, _MODE))
            except OSError as error:
                why = f"unable to create nested volume mountpoints: {error.strerror}"
                raise OSError(error.errno, why, os.fspath(volume / place)) from error
    finally:
        os.close(root)


def _outermost(places: Collection[str], above: str) -> list[str]:
    """Return the outermost of the places below `above`, relative to `above`; `places` is sorted."""
    found: list[str] = []
    for place in places:
        relative = place.removeprefix(above)
        if relative == place or any(relative.startswith(f"{other}/") for other in found):
            continue
        if relative.startswith("..") or "\0" in relative:
            raise PayloadError(f"invalid container mount point {place!r}: must not begin with '..' inside a volume")
        found.append(relative)
    return found


def _clean(path: str) -> str:
    """Return a path as Go's filepath.Clean does: unlike in Python, two slashes at the beginning become one."""
    return posixpath.normpath(f"/{path.lstrip('/')}" if path.startswith("/") else path)
