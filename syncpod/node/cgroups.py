"""Lists and kills the processes in a pod's cgroup, and removes the cgroup.

Runtimes do not remove the cgroup: RemovePodSandbox leaves it, usually empty, in every controller's hierarchy.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from syncpod.kernel.cgroupfs import kill_processes, mounted_hierarchies, processes_of, remove_tree
from syncpod.kernel.mountinfo import MOUNTINFO
from syncpod.kernel.process_end import is_first_of_a_namespace
from syncpod.translation.cgroup_paths import pod_cgroups
from syncpod.translation.context import NodeContext


def populated(node: NodeContext, uid: str, ids: Collection[str], *, mountinfo: Path = MOUNTINFO) -> tuple[str, ...]:
    """Return the ids of the pod's containers and sandboxes whose cgroups have processes. Blocks.

    Runtimes put these cgroups beneath the pod's and name them after the id: ``<id>``, or with systemd
    ``<runtime>-<id>.scope``. Raises :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    found: set[str] = set()
    for directory in _directories(node, uid, mountinfo):
        for cgroup in directory.glob("*/"):
            found.update(id for id in ids if id in cgroup.name and _is_populated(cgroup))
    return tuple(sorted(found))


def first_process(node: NodeContext, uid: str, container_id: str, *, mountinfo: Path = MOUNTINFO) -> int:
    """Return the pid of a container's first process; 0 if the runtime has not made it yet. Blocks.

    This is pid 1 of the container's own pid namespace; a container that shares a pid namespace has none. The process
    may not run the container's command yet, and may have ended already. Raises
    :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    for directory in _directories(node, uid, mountinfo):
        for cgroup in directory.glob("*/"):
            if container_id in cgroup.name:
                for pid in processes_of(cgroup):
                    if pid and is_first_of_a_namespace(pid):
                        return pid
    return 0


def kill_pod_cgroup(node: NodeContext, uid: str, *, mountinfo: Path = MOUNTINFO) -> tuple[int, ...]:
    """SIGKILL all processes in the pod's cgroup, and return them. Safe to repeat; blocks.

    Only for a pod without containers and sandboxes, of whose remaining processes the runtime has lost track. Mirrors
    cm/pod_container_manager_linux.go, v1.36, tryKillingCgroupProcesses. Difference: each process is held by a pidfd
    while the cgroup is read again, so another process with a reused pid is never killed. Raises
    :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    return tuple(sorted({pid for top in _directories(node, uid, mountinfo) for pid in kill_processes(top)}))


def count_processes(node: NodeContext, uid: str, *, mountinfo: Path = MOUNTINFO) -> int | None:
    """Return the number of processes in a pod's cgroup, its sandbox's included; None if it has no cgroup. Blocks.

    Raises :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    for top in _directories(node, uid, mountinfo):
        if top.is_dir():
            return sum(len(processes_of(Path(directory))) for directory, _, _ in os.walk(top))
    return None


def remove_pod_cgroup(node: NodeContext, uid: str, *, mountinfo: Path = MOUNTINFO) -> None:
    """Remove the pod's cgroup, and those in it, from every hierarchy that is mounted. Safe to repeat; blocks.

    Only for a pod without sandboxes. Cgroups are removed by rmdir, from the bottom up; the kernel refuses to remove one
    that holds a process. The tiers and the parent of all pods stay. Raises
    :class:`~syncpod.kernel.cgroupfs.CgroupBusy`.
    """
    for directory in _directories(node, uid, mountinfo):
        remove_tree(directory)


def _directories(node: NodeContext, uid: str, mountinfo: Path) -> Iterator[Path]:
    """Yield every directory that may be the pod's cgroup: in each tier of each hierarchy."""
    below = [cgroup.relative_to("/") for cgroup in pod_cgroups(node, uid)]
    return (each.path / path for each in mounted_hierarchies(mountinfo) for path in below)


def _is_populated(cgroup: Path) -> bool:
    """Return whether there are processes in a cgroup or below it."""
    return any(processes_of(Path(directory)) for directory, _, _ in os.walk(cgroup))
