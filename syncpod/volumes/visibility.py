"""Whether a runtime sees what this process mounts, and this process the files that a runtime means.

On a machine's own terms both do. A worker in a container has a view of its own: what it mounts is seen outside where
the mount that holds it is shared (docker's `propagation: rshared`), and what it sees at a path may be the container's.
"""

import os
import re
from pathlib import Path

from syncpod.kernel.mounting import effective_capabilities

_SHARED = re.compile(r"\bshared:(\d+)")
_ESCAPED = re.compile(r"\\([0-7]{3})")


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
    own = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    try:
        theirs = Path(f"/proc/{other}/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        theirs = ""
    return propagates(own, theirs, place.resolve())


def propagates(own: str, theirs: str, place: Path) -> bool:
    """Say whether mounts below an absolute path propagate, from the mountinfo of the one who mounts to the other's.

    They do where the mount that holds the path is shared, and the other has one of its peers or slaves; of an empty
    text nothing is asked.
    """
    holding = _mount_of(own, place)
    shared = _SHARED.search(holding)
    if shared is None:
        return False
    return not theirs or re.search(rf"\b(?:shared|master):{shared[1]}\b", _propagation(theirs)) is not None


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


def _mount_of(mountinfo: str, place: Path) -> str:
    """Return the optional fields of the mount that holds a path: the deepest one on its way, and the topmost there."""
    best, found = -1, ""
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        point = Path(_ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), fields[4]))
        depth = len(point.parts)
        if place.is_relative_to(point) and depth >= best:
            best, found = depth, " ".join(fields[6 : fields.index("-")])
    return found


def _propagation(mountinfo: str) -> str:
    lines = (line.split(" ") for line in mountinfo.splitlines())
    return " ".join(field for fields in lines for field in fields[6 : fields.index("-")])
