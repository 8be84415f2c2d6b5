"""Whether a runtime sees what this process mounts, and this process the files that a runtime means.

On a machine's own terms both do. A worker in a container has a view of its own: what it mounts is seen outside where
the mount that holds it is shared (docker's `propagation: rshared`), and what it sees at a path may be the container's.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from syncpod.kernel.mountinfo import Mount, read_mounts
from syncpod.kernel.mounting import effective_capabilities


def shares_mounts(other: int) -> bool:
    """Say whether a process, by pid, has this one's mounts, being in the same mount namespace.

    False where that cannot be told: it is in another pid namespace, or another user's. Raises nothing.
    """
    try:
        return os.path.samestat(Path("/proc/self/ns/mnt").stat(), Path(f"/proc/{other}/ns/mnt").stat())
    except OSError:
        return False


def mounts_reach(other: int, place: Path) -> bool:
    """Say whether what is mounted below `place` from now on is seen by a process, by pid.

    Where nothing can be learned of that process, it is believed if `place` lies on a shared mount. Blocks.
    """
    if shares_mounts(other):
        return True
    try:
        theirs = read_mounts(Path(f"/proc/{other}/mountinfo"))
    except OSError:
        theirs = ()
    return propagates(read_mounts(), theirs, place.resolve())


def propagates(own: Iterable[Mount], theirs: Collection[Mount], place: Path) -> bool:
    """Say whether mounts below an absolute path propagate from the process that mounts to another, by their mounts.

    They do where the mount that holds the path is shared and the other process has a peer or a slave of it. Where
    nothing is known of the other's mounts, it is enough that ours is shared.
    """
    group = next((tag.removeprefix("shared:") for tag in _propagation(own, place) if tag.startswith("shared:")), None)
    if group is None:
        return False
    receiving = {f"shared:{group}", f"master:{group}"}
    return not theirs or any(receiving & set(mount.propagation) for mount in theirs)


def has_no_more_rights(other: int) -> bool:
    """Say whether a process, by pid, may do no more on this machine than this one: the same user, no capability more.

    Capabilities in a user namespace of its own, such as a rootless runtime has, count for nothing here. False where
    that cannot be told. Raises nothing.
    """
    try:
        if Path(f"/proc/{other}").stat().st_uid != os.geteuid():
            return False
        if not os.path.samestat(Path("/proc/self/ns/user").stat(), Path(f"/proc/{other}/ns/user").stat()):
            return True
        return not effective_capabilities(other) & ~effective_capabilities(os.getpid())
    except OSError:
        return False


def is_the_machines(path: Path, *, machine: Path = Path("/proc/1/root")) -> bool:
    """Say whether a path names for this process what it names for the machine, as its first process sees that. Blocks.

    False where one of them has nothing there, or the machine's files cannot be looked at. Raises nothing.
    """
    try:
        return os.path.samestat(path.stat(), Path(f"{machine}{path}").stat())
    except OSError:
        return False


def _propagation(mounts: Iterable[Mount], place: Path) -> tuple[str, ...]:
    """Return how the mount that holds a path propagates: the deepest one on its way, and the topmost there."""
    depth = -1
    found: tuple[str, ...] = ()
    for mount in mounts:
        point = Path(mount.mount_point)
        if place.is_relative_to(point) and len(point.parts) >= depth:
            depth, found = len(point.parts), mount.propagation
    return found
