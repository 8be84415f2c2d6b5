"""Detects that the disk of the directory of manifests is not mounted, so that only its empty mount point is there.

The kubelet does not check this: it ends all pods of a directory whose disk is not mounted.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.kernel.mountinfo import read_mounts
from syncpod.kernel.procfs import boot_id

MEANT: Final = ".syncpod-manifests"
"""A file of this name in the directory confirms that the directory is meant to be on another device than before."""
_FILE: Final = "manifest-place.json"


@dataclass(frozen=True)
class DirectoryPlace:
    """The device and mount that a directory is on."""

    directory: str
    boot: str
    """The id of the machine's boot: device numbers are comparable only within one boot."""
    device: int
    """`st_dev`."""
    disk: int
    """The disk's `f_fsid`: a device number alone may later belong to another disk."""
    mount_point: str
    """Where its file system is mounted."""
    file_system: str
    """The type of the file system, such as ``ext4``."""

    def __str__(self) -> str:
        return f"{self.file_system} mounted at {self.mount_point}"

    def is_another_than(self, before: DirectoryPlace) -> bool:
        """Say whether the same directory was on another device before. After a boot, mount point and type decide."""
        if self.directory != before.directory:
            return False
        if self.boot and self.boot == before.boot:
            return (self.device, self.disk) != (before.device, before.disk)
        return (self.mount_point, self.file_system) != (before.mount_point, before.file_system)


def place_of(directory: Path, known: DirectoryPlace | None) -> DirectoryPlace:
    """Return where a directory is. If it is still at `known`, the mounts are not read. Blocks. Raises OSError."""
    boot, device, disk = boot_id(), directory.stat().st_dev, os.statvfs(directory).f_fsid
    if known is not None and boot:
        as_known = known.directory, known.boot, known.device, known.disk
        if as_known == (str(directory), boot, device, disk):
            return known
    real = Path(os.path.realpath(directory))
    mounts = [each for each in read_mounts() if real.is_relative_to(each.mount_point)]
    # A later mount hides an earlier one at the same point.
    mount = max(reversed(mounts), key=lambda each: len(each.mount_point), default=None)
    point, kind = (mount.mount_point, mount.file_system) if mount is not None else ("/", "")
    return DirectoryPlace(str(directory), boot, device, disk, point, kind)


def recall_place(state_dir: Path) -> DirectoryPlace | None:
    """Return where the directory was when it was last read; None if that is not on disk. Blocks."""
    try:
        return DirectoryPlace(**json.loads((state_dir / _FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def remember_place(state_dir: Path, place: DirectoryPlace) -> None:
    """Write down where the directory is. Blocks. Raises OSError."""
    replace_file(state_dir / _FILE, json.dumps(asdict(place), indent=1) + "\n", durable=False)
