"""Checks whether this process's mounts and files are visible to a runtime, and shares the mounts of volumes.

They are visible if the worker runs directly on the machine. A worker in a container has its own mount namespace: its
mounts are visible outside only if the mount above them is shared (docker's `propagation: rshared`), and a path may lead
to the container's own files.

A runtime propagates mounts (mountPropagation) only in a volume that lies on a shared mount. If the node's directory is
not on one, the volume is bound to itself, and so becomes a mount of its own.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from syncpod.kernel import mounting
from syncpod.kernel.mountinfo import Mount, mount_of, read_mounts


def shares_mounts(other: int) -> bool:
    """Return whether the process with this pid is in the same mount namespace as this one.

    False if that is not known, because the process is in another pid namespace or belongs to another user. Raises
    nothing.
    """
    try:
        return os.path.samestat(Path("/proc/self/ns/mnt").stat(), Path(f"/proc/{other}/ns/mnt").stat())
    except OSError:
        return False


def mounts_reach(other: int, place: Path) -> bool:
    """Return whether later mounts below `place` will be visible to the process with this pid. Blocks.

    If that process's mounts cannot be read, this is True if `place` is on a shared mount.
    """
    if shares_mounts(other):
        return True
    try:
        theirs = read_mounts(Path(f"/proc/{other}/mountinfo"))
    except OSError:
        theirs = ()
    return propagates(read_mounts(), theirs, place.resolve())


def propagates(own: Iterable[Mount], theirs: Collection[Mount], place: Path) -> bool:
    """Return whether later mounts below an absolute path propagate from this process to another.

    `own` and `theirs` are the mounts of the two processes. Mounts propagate if the mount of the path is shared, and the
    other process has a peer or a slave of that mount. If `theirs` is empty, a shared mount in `own` is enough.
    """
    holding = mount_of(own, place)
    tags = holding.propagation if holding is not None else ()
    group = next((tag.removeprefix("shared:") for tag in tags if tag.startswith("shared:")), None)
    if group is None:
        return False
    receiving = {f"shared:{group}", f"master:{group}"}
    return not theirs or any(receiving & set(mount.propagation) for mount in theirs)


def has_no_more_rights(other: int) -> bool:
    """Return whether the process with this pid has no more rights than this one: the same user, no more capabilities.

    Capabilities in a user namespace of its own, which a rootless runtime has, do not count. False if that is not known.
    Raises nothing.
    """
    try:
        if Path(f"/proc/{other}").stat().st_uid != os.geteuid():
            return False
        if not os.path.samestat(Path("/proc/self/ns/user").stat(), Path(f"/proc/{other}/ns/user").stat()):
            return True
        return not mounting.effective_capabilities(other) & ~mounting.effective_capabilities(os.getpid())
    except OSError:
        return False


def is_the_machines(path: Path, *, machine: Path = Path("/proc/1/root")) -> bool:
    """Return whether a path names the same file for this process and for the machine's first process. Blocks.

    False if one of them has no such file, or if the machine's files cannot be read. Raises nothing.
    """
    try:
        return os.path.samestat(path.stat(), Path(f"{machine}{path}").stat())
    except OSError:
        return False


def share_volume(place: Path) -> None:
    """Make mounts below a volume propagate from now on; safe to repeat. `place` is absolute and without symlinks.

    Mirrors hostutil_linux.go, v1.36, MakeRShared, which the kubelet applies to its whole directory. Blocks.
    Raises OSError.
    """
    if mounting.is_mount(place) or not mounting.mounts_below(place):  # a bind would hide the mounts inside
        mounting.share(place)


def stop_sharing(volumes: Path) -> None:
    """Unmount the volumes of a pod that are bound to themselves, and nothing else; safe to repeat.

    `volumes` has a directory for each plugin. A volume with a mount inside stays mounted, and so does that inner mount,
    which a container may have propagated. Blocks. Raises OSError.
    """
    for place in sorted(volumes.glob("*/*")):
        if mounting.is_mount(place) and mounting.is_bound_to_itself(place) and not mounting.mounts_below(place):
            mounting.unmount(place)
