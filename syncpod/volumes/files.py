"""A volume of files, made from ConfigMaps, Secrets and the pod itself, and kept up to date."""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from syncpod.kernel import mounting
from syncpod.objects import ObjectRef, ObjectStore, ObjectUnreadable, values
from syncpod.volumes.empty_dir import Tmpfs
from syncpod.volumes.nested import make_nested_mount_points
from syncpod.volumes.ownership import change_group, give_to_group
from syncpod.volumes.payload import IssuedSource, Objects, ObjectSource, PayloadError, Source, payload
from syncpod.volumes.writer import DATA, write

ON_DISK = 0o777
IN_MEMORY = 0o1777
"""Mode of the volume's directory, that of the kubelet's emptyDirs. In containers the directory is read-only anyway."""


@dataclass(frozen=True, slots=True)
class Files:
    """A volume of files to make: its path, its sources, and its group."""

    path: Path
    mode: int
    sources: tuple[Source, ...]
    file_mode: int
    group: int | None = None
    mount: Tmpfs | None = None
    """The file system to mount at `path` before any file is written there; None = none."""
    mount_points: tuple[str, ...] = ()
    """Directories in the volume at which containers mount other volumes, relative to `path`."""

    @property
    def objects(self) -> frozenset[ObjectRef]:
        """The ConfigMaps and Secrets that the volume shows, whether they exist or not."""
        return frozenset(source.ref for source in self.sources if isinstance(source, ObjectSource | IssuedSource))


def make_files(volume: Files, objects: Objects) -> bool:
    """Make or update the volume; return whether its files changed. Blocks; safe to repeat.

    The directory above it must exist, and nobody else may write to the volume. Raises PayloadError if the files cannot
    be made, and OSError; the volume then still shows its former files (configmap.go, secret.go, projected.go,
    downwardapi.go, v1.36, SetUpAt).
    """
    files = payload(volume.sources, objects, volume.file_mode)
    _make_root(volume)
    make_nested_mount_points(volume.path, volume.mount_points)
    group = volume.group
    if group is None:
        return write(volume.path, files)
    return write(volume.path, files, lambda: give_to_group(volume.path, group, read_only=True))


def _make_root(volume: Files) -> None:
    """Make the volume's directory, or complete one that was left unfinished by a crash."""
    volume.path.mkdir(exist_ok=True)
    # A volume that has files on disk already gets no mount: containers may have these files mounted.
    if volume.mount is not None and not os.path.lexists(volume.path / DATA):
        mounting.mount_tmpfs(volume.path, volume.mount.size_bytes, volume.mode)
    found, mode = volume.path.lstat(), volume.mode
    if volume.group is not None:
        mode |= stat.S_ISGID
        if found.st_gid != volume.group:
            change_group(volume.path, volume.group)
    # Changing the group clears the setgid bit.
    if stat.S_IMODE(volume.path.lstat().st_mode) != mode:
        volume.path.chmod(mode)


def objects_of(volumes: Iterable[Files], store: ObjectStore) -> Objects:
    """Return the ConfigMaps and Secrets of these volumes that exist now. Blocks. Raises OSError, PayloadError."""
    wanted = sorted({ref for volume in volumes for ref in volume.objects})
    found = {}
    for ref in wanted:
        try:
            held = store.get(ref)
            if held is not None:
                found[ref] = values(held)
        except ObjectUnreadable as error:
            raise PayloadError(str(error), ref) from error
        except ValueError as error:
            raise PayloadError(f"{ref} cannot be read: {error}", ref) from error
    return found
