"""The cgroup above a pod's containers: its name for the runtime, who is in it, and its removal, which is left to us.

After RemovePodSandbox the pod's cgroup stays behind in every controller's hierarchy; empty, as a rule.
"""

import errno
import os
import re
import signal
import time
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from syncpod.cri.node import NodeContext
from syncpod.cri.paths import pod_directory

_TRIES = 5
_FIRST_WAIT_SECONDS = 0.01
_OCTAL = re.compile(r"\\([0-7]{3})")


class CgroupBusy(OSError):
    """A pod's cgroup still holds processes; the text names the directory and their ids."""


def pod_cgroup(node: NodeContext, uid: str) -> PurePosixPath:
    """Return the pod's cgroup as a path below each hierarchy's root; it is what ``cgroup_parent`` is given.

    With the cgroupfs driver ``/<parent>/pod<uid>``. With systemd the parts form the name of a slice, dashes in them
    written as underscores, and each slice lies in the one named by its beginning:
    ``/syncpod.slice/syncpod-pod<uid>.slice`` (cm/cgroup_manager_linux.go, v1.36, ToCgroupfs, ToSystemd).
    Raises :class:`~syncpod.cri.paths.UnsafeName`. Difference: the kubelet puts a tier for each QoS class between.
    """
    pod_directory(node, uid)
    parts = [*PurePosixPath(node.cgroup_parent.strip("/")).parts, f"pod{uid}"]
    if node.cgroup_driver == "cgroupfs":
        return PurePosixPath("/", *parts)
    names = [part.replace("-", "_") for part in parts]
    return PurePosixPath("/", *(f"{'-'.join(names[:depth])}.slice" for depth in range(1, len(names) + 1)))


def populated(
    node: NodeContext, uid: str, ids: Collection[str], *, mountinfo: Path = Path("/proc/self/mountinfo")
) -> tuple[str, ...]:
    """Return those of the pod's containers and sandboxes, by id, in whose cgroup there are processes. Blocks.

    Runtimes put each beneath the pod's, named after the id: ``<id>``, or with systemd ``<runtime>-<id>.scope``.
    Raises :class:`~syncpod.cri.paths.UnsafeName`, OSError.
    """
    below = pod_cgroup(node, uid).relative_to("/")
    found: set[str] = set()
    for hierarchy in cgroup_hierarchies(mountinfo.read_text()):
        for cgroup in hierarchy.joinpath(below).glob("*/"):
            found.update(id for id in ids if id in cgroup.name and _is_populated(cgroup))
    return tuple(sorted(found))


def kill_pod_cgroup(node: NodeContext, uid: str, *, mountinfo: Path = Path("/proc/self/mountinfo")) -> tuple[int, ...]:
    """SIGKILL whatever is in the pod's cgroup, and return which processes those were. Safe to repeat; blocks.

    Only for a pod without containers and sandboxes: what is there is what a runtime has begun and forgotten. Mirrors
    cm/pod_container_manager_linux.go, v1.36, tryKillingCgroupProcesses. Difference: each is held by a pidfd while it is
    looked for in the cgroup again, so that none is hit that got the number of one that has ended.
    Raises :class:`~syncpod.cri.paths.UnsafeName`, OSError.
    """
    below = pod_cgroup(node, uid).relative_to("/")
    killed: set[int] = set()
    for hierarchy in cgroup_hierarchies(mountinfo.read_text()):
        for directory, _, _ in os.walk(hierarchy / below):
            cgroup = Path(directory)
            killed.update(pid for pid in _processes(cgroup) - killed if _kill(pid, cgroup))
    return tuple(sorted(killed))


def remove_pod_cgroup(node: NodeContext, uid: str, *, mountinfo: Path = Path("/proc/self/mountinfo")) -> None:
    """Remove the pod's cgroup, and those in it, from every hierarchy that is mounted. Safe to repeat; blocks.

    Only for a pod without sandboxes. Cgroups are removed by rmdir alone, from the bottom up, which the kernel refuses
    while a process is in one; the parent of all pods stays. Raises :class:`CgroupBusy`.
    """
    below = pod_cgroup(node, uid).relative_to("/")
    for hierarchy in cgroup_hierarchies(mountinfo.read_text()):
        _remove(hierarchy / below)


def cgroup_hierarchies(mountinfo: str) -> tuple[Path, ...]:
    """Return where cgroup hierarchies are mounted from their root: all version 1 controllers, and version 2.

    ``mountinfo`` is the text of /proc/<pid>/mountinfo. A mount that shows only a part of a hierarchy is left out.
    """
    found: dict[Path, None] = {}
    for line in mountinfo.splitlines():
        fields = line.split()
        root, mount_point, kind = fields[3], fields[4], fields[fields.index("-") + 1]
        if kind in ("cgroup", "cgroup2") and root == "/":
            found[Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), mount_point))] = None
    return tuple(found)


def _remove(cgroup: Path) -> None:
    for directory, _, _ in os.walk(cgroup, topdown=False):
        _rmdir(Path(directory))


def _rmdir(directory: Path) -> None:
    wait = _FIRST_WAIT_SECONDS
    for tries_left in reversed(range(_TRIES)):
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            if not tries_left:
                raise CgroupBusy(error.errno, f"still in use by {_users(directory)}", str(directory)) from error
            # A process that has just exited keeps its cgroup busy for a moment.
            time.sleep(wait)
            wait *= 2
        else:
            return


def _users(cgroup: Path) -> str:
    try:
        processes = cgroup.joinpath("cgroup.procs").read_text().split()
    except OSError as error:
        return f"processes that cannot be read ({error.strerror})"
    return f"processes {', '.join(processes)}" if processes else "a cgroup below it"


def _is_populated(cgroup: Path) -> bool:
    """Say whether there are processes in a cgroup or below it."""
    return any(_processes(Path(directory)) for directory, _, _ in os.walk(cgroup))


def _processes(cgroup: Path) -> frozenset[int]:
    """Return who is in a cgroup itself: nobody where it has gone, or is threaded; 0 is one not seen from here."""
    try:
        return frozenset(map(int, cgroup.joinpath("cgroup.procs").read_text().split()))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
            raise
        return frozenset()


def _kill(pid: int, cgroup: Path) -> bool:
    """SIGKILL a process if it is in that cgroup; say whether it was. Raises OSError."""
    if pid == 0:
        return False
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if pid not in _processes(cgroup):
            return False
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(process)
    return True
