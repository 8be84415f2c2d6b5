"""Volumes whose mounts reach containers, or come from them (mountPropagation).

A runtime propagates mounts only of a volume that lies on a mount which shares. Where the node's directory does not, a
volume becomes a mount of its own: it is bound to itself. Everything blocks, and raises OSError.
"""

from pathlib import Path

from syncpod.kernel import mounting


def share_volume(place: Path) -> None:
    """Have mounts below a volume propagate from now on; safe to repeat. It must be absolute and without symlinks.

    Mirrors hostutil_linux.go, v1.36, MakeRShared, which the kubelet applies to its whole directory.
    """
    if mounting.is_mount(place) or not mounting.mounts_below(place):  # a bind would hide what is mounted inside
        mounting.share(place)


def stop_sharing(volumes: Path) -> None:
    """Unmount the volumes of a pod that are bound to themselves, and nothing else; safe to repeat.

    `volumes` has a directory for each plugin. A volume in which something is mounted stays, as does what is mounted: a
    container that propagates its mounts may have left it there.
    """
    for place in sorted(volumes.glob("*/*")):
        if mounting.is_mount(place) and mounting.is_bound_to_itself(place) and not mounting.mounts_below(place):
            mounting.unmount(place)
