"""Where a directory of manifests lies: whether a disk is gone whose mount point is left, with nothing in it.

The kubelet has no such question. It ends all pods of a directory whose disk is not mounted.
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
"""A file of this name in a directory says that the directory may lie on another device than before."""
_FILE: Final = "manifest-place.json"


@dataclass(frozen=True)
class DirectoryPlace:
    """Where a directory lies."""

    directory: str
    boot: str
    """The boot of the machine, since the numbers of devices are another boot's otherwise."""
    device: int
    """`st_dev`."""
    disk: int
    """`f_fsid`: the number of a device may be another disk's by now."""
    mount_point: str
    """Where its file system is mounted."""
    file_system: str
    """``ext4`` and the like."""

    def __str__(self) -> str:
        return f"{self.file_system} mounted at {self.mount_point}"

    def is_another_than(self, before: DirectoryPlace) -> bool:
        """Say whether the same directory lay on another device before; after a boot, as far as that is known."""
        if self.directory != before.directory:
            return False
        if self.boot and self.boot == before.boot:
            return (self.device, self.disk) != (before.device, before.disk)
        return (self.mount_point, self.file_system) != (before.mount_point, before.file_system)


def place_of(directory: Path, known: DirectoryPlace | None) -> DirectoryPlace:
    """Return where a directory lies. `known` spares looking again if it lies there still. Blocks. Raises OSError."""
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
    """Return where the node's directory lay when it was last read; None if that is not known. Blocks."""
    try:
        return DirectoryPlace(**json.loads((state_dir / _FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def remember_place(state_dir: Path, place: DirectoryPlace) -> None:
    """Note where the directory lies. Blocks. Raises OSError."""
    replace_file(state_dir / _FILE, json.dumps(asdict(place), indent=1) + "\n", durable=False)
