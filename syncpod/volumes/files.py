"""A volume of files, made from ConfigMaps, Secrets and the pod itself, and kept up to date."""

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from syncpod.objects import ObjectRef, ObjectStore, ObjectUnreadable, values
from syncpod.volumes.ownership import change_group, give_to_group
from syncpod.volumes.payload import Objects, ObjectSource, PayloadError, Source, payload
from syncpod.volumes.writer import write

ON_DISK = 0o777
IN_MEMORY = 0o1777
"""Permissions of the volume itself, which containers only ever see read-only: those of the kubelet's emptyDirs."""


@dataclass(frozen=True, slots=True)
class Files:
    """A volume of files to be made: where, of what, and whose group it takes."""

    path: Path
    mode: int
    sources: tuple[Source, ...]
    file_mode: int
    group: int | None = None

    @property
    def objects(self) -> frozenset[ObjectRef]:
        """The ConfigMaps and Secrets that it shows, whether they are there or not."""
        return frozenset(source.ref for source in self.sources if isinstance(source, ObjectSource))


def make_files(volume: Files, objects: Objects) -> bool:
    """Make the volume, or bring it up to date; say whether its files changed. Blocks; safe to repeat.

    The directory above it must be there, and nobody else may write it. Nothing is made where the files cannot be had:
    raises PayloadError, and OSError; what the volume showed before still stands then (configmap.go, secret.go,
    projected.go, downwardapi.go, v1.36, SetUpAt).
    """
    files = payload(volume.sources, objects, volume.file_mode)
    _make_root(volume)
    group = volume.group
    if group is None:
        return write(volume.path, files)
    return write(volume.path, files, lambda: give_to_group(volume.path, group, read_only=True))


def _make_root(volume: Files) -> None:
    """Make the volume's own directory, or put right what a dying predecessor left undone."""
    volume.path.mkdir(exist_ok=True)
    found, mode = volume.path.lstat(), volume.mode
    if volume.group is not None:
        mode |= stat.S_ISGID
        if found.st_gid != volume.group:
            change_group(volume.path, volume.group)
    # A change of group takes the setgid bit away.
    if stat.S_IMODE(volume.path.lstat().st_mode) != mode:
        volume.path.chmod(mode)


def objects_of(volumes: Iterable[Files], store: ObjectStore) -> Objects:
    """Return what there is now of the objects that volumes show. Blocks. Raises OSError, PayloadError."""
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
