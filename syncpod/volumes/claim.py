"""Makes the volume behind a claim usable: checks its place, gives it to the pod's group, and makes a symlink to it.

The place is a path on the node. A runtime follows the symlink, so containers get the place itself. Nothing is mounted
on the node, and removing a pod's directory removes only the symlink.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from syncpod.objects import ObjectRef, ObjectStore, ObjectUnreadable, values
from syncpod.objects.claims import ClaimedPlace, claimed_place
from syncpod.pod.enums import HostPathType
from syncpod.volumes.host_path import HostPath, HostPathUnfit, check_host_path
from syncpod.volumes.ownership import give_volume
from syncpod.volumes.payload import PayloadError

_OURS: Final = 0o750


@dataclass(frozen=True, slots=True)
class Claim:
    """A volume behind a claim: the path of its symlink, the object that names its place, and its group."""

    link: Path
    ref: ObjectRef
    group: int | None = None
    only_if_root_differs: bool = False
    """True to leave the volume as it is if its directory belongs to the group already (OnRootMismatch)."""
    is_read_only: bool = False


def make_claim(claim: Claim, store: ObjectStore) -> None:
    """Check the place behind a claim, and make the symlink to it. Blocks; safe to repeat.

    Mirrors volume/local/local.go, v1.36, SetUpAt, and host_path.go. Differences: a container gets a local volume's
    directory itself, without an intermediate mount; a block device is not formatted, nor held by a loop device; and
    fsGroup is applied for each pod, not only for the first. Raises HostPathUnfit, OSError, and PayloadError as long as
    the place is not known.
    """
    place = _place(claim.ref, store)
    path = Path(place.path)
    if place.is_block:
        _check_device(path)
    elif place.plugin == "hostPath":
        check_host_path(HostPath(path, cast(HostPathType, place.type)))
    elif place.plugin == "local":
        _check_local(path)
        if claim.group is not None and not claim.is_read_only:
            give_volume(path, claim.group, only_if_root_differs=claim.only_if_root_differs)
    _link(claim.link, path)


def _place(ref: ObjectRef, store: ObjectStore) -> ClaimedPlace:
    try:
        held = store.get(ref)
        if held is None:
            raise PayloadError(f"{ref} not found", ref)
        place = claimed_place(values(held))
    except (ObjectUnreadable, ValueError) as error:
        raise PayloadError(str(error), ref) from error
    if not place.path:
        raise PayloadError(f"driver {place.driver} has not mounted volume {place.volume} yet", ref)
    return place


def _check_local(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise HostPathUnfit(f'path "{path}" does not exist') from None
    if not stat.S_ISDIR(mode):
        raise HostPathUnfit(f'path "{path}" of a local volume must be a directory: this node formats no devices')


def _check_device(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise HostPathUnfit(f'path "{path}" does not exist') from None
    if not stat.S_ISBLK(mode):
        raise HostPathUnfit(f'path "{path}" of a block volume must be a block device')


def _link(link: Path, path: Path) -> None:
    # No `parents=True`: the directory of a pod that was removed meanwhile must not be made again.
    for directory in (link.parents[1], link.parents[0]):
        directory.mkdir(mode=_OURS, exist_ok=True)
    if link.is_symlink() and link.readlink() == path:
        return
    draft = link.with_name(f".{link.name}.new")
    draft.unlink(missing_ok=True)
    draft.symlink_to(path)
    os.replace(draft, link)  # noqa: PTH105
