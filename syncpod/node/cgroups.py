"""The cgroup above a pod's containers: who is in it, and its removal, which runtimes leave to us.

After RemovePodSandbox the pod's cgroup stays behind in every controller's hierarchy; empty, as a rule.
"""

import errno
import os
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from syncpod.kernel.cgroup_mounts import MOUNTINFO, hierarchies
from syncpod.translation.cgroup_paths import pod_cgroups
from syncpod.translation.context import NodeContext

_TRIES = 5
_FIRST_WAIT_SECONDS = 0.01


class CgroupBusy(OSError):
    """A pod's cgroup still holds processes; the text names the directory and their ids."""


def populated(node: NodeContext, uid: str, ids: Collection[str], *, mountinfo: Path = MOUNTINFO) -> tuple[str, ...]:
    """Return those of the pod's containers and sandboxes, by id, in whose cgroup there are processes. Blocks.

    Runtimes put each beneath the pod's, named after the id: ``<id>``, or with systemd ``<runtime>-<id>.scope``.
    Raises :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    found: set[str] = set()
    for directory in _directories(node, uid, mountinfo):
        for cgroup in directory.glob("*/"):
            found.update(id for id in ids if id in cgroup.name and _is_populated(cgroup))
    return tuple(sorted(found))


def kill_pod_cgroup(node: NodeContext, uid: str, *, mountinfo: Path = MOUNTINFO) -> tuple[int, ...]:
    """SIGKILL whatever is in the pod's cgroup, and return which processes those were. Safe to repeat; blocks.

    Only for a pod without containers and sandboxes: what is there is what a runtime has begun and forgotten. Mirrors
    cm/pod_container_manager_linux.go, v1.36, tryKillingCgroupProcesses. Difference: each is held by a pidfd while it is
    looked for in the cgroup again, so that none is hit that got the number of one that has ended.
    Raises :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    killed: set[int] = set()
    for top in _directories(node, uid, mountinfo):
        for directory, _, _ in os.walk(top):
            cgroup = Path(directory)
            killed.update(pid for pid in _processes(cgroup) - killed if _kill(pid, cgroup))
    return tuple(sorted(killed))


def count_processes(node: NodeContext, uid: str, *, mountinfo: Path = MOUNTINFO) -> int | None:
    """Return how many processes a pod has, its sandbox's included, by its cgroup; None where it has none. Blocks.

    Raises :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    for top in _directories(node, uid, mountinfo):
        if top.is_dir():
            return sum(len(_processes(Path(directory))) for directory, _, _ in os.walk(top))
    return None


def remove_pod_cgroup(node: NodeContext, uid: str, *, mountinfo: Path = MOUNTINFO) -> None:
    """Remove the pod's cgroup, and those in it, from every hierarchy that is mounted. Safe to repeat; blocks.

    Only for a pod without sandboxes. Cgroups are removed by rmdir alone, from the bottom up, which the kernel refuses
    while a process is in one; the tiers and the parent of all pods stay. Raises :class:`CgroupBusy`.
    """
    for directory in _directories(node, uid, mountinfo):
        _remove(directory)


def _directories(node: NodeContext, uid: str, mountinfo: Path) -> Iterator[Path]:
    """Yield every directory in which the pod's cgroup may be: in each tier of each hierarchy."""
    below = [cgroup.relative_to("/") for cgroup in pod_cgroups(node, uid)]
    return (each.path / path for each in hierarchies(mountinfo.read_text()) for path in below)


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
