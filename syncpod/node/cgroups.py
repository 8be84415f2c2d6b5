"""The cgroup above a pod's containers: who is in it, and its removal, which runtimes leave to us.

After RemovePodSandbox the pod's cgroup stays behind in every controller's hierarchy; empty, as a rule.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from syncpod.kernel.cgroupfs import kill_processes, processes_of, remove_tree, whole_hierarchies
from syncpod.kernel.mountinfo import MOUNTINFO, read_mounts
from syncpod.translation.cgroup_paths import pod_cgroups
from syncpod.translation.context import NodeContext


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
    return tuple(sorted({pid for top in _directories(node, uid, mountinfo) for pid in kill_processes(top)}))


def count_processes(node: NodeContext, uid: str, *, mountinfo: Path = MOUNTINFO) -> int | None:
    """Return how many processes a pod has, its sandbox's included, by its cgroup; None where it has none. Blocks.

    Raises :class:`~syncpod.translation.paths.UnsafeName`, OSError.
    """
    for top in _directories(node, uid, mountinfo):
        if top.is_dir():
            return sum(len(processes_of(Path(directory))) for directory, _, _ in os.walk(top))
    return None


def remove_pod_cgroup(node: NodeContext, uid: str, *, mountinfo: Path = MOUNTINFO) -> None:
    """Remove the pod's cgroup, and those in it, from every hierarchy that is mounted. Safe to repeat; blocks.

    Only for a pod without sandboxes. Cgroups are removed by rmdir alone, from the bottom up, which the kernel refuses
    while a process is in one; the tiers and the parent of all pods stay. Raises :class:`CgroupBusy`.
    """
    for directory in _directories(node, uid, mountinfo):
        remove_tree(directory)


def _directories(node: NodeContext, uid: str, mountinfo: Path) -> Iterator[Path]:
    """Yield every directory in which the pod's cgroup may be: in each tier of each hierarchy."""
    below = [cgroup.relative_to("/") for cgroup in pod_cgroups(node, uid)]
    return (each.path / path for each in whole_hierarchies(read_mounts(mountinfo)) for path in below)


def _is_populated(cgroup: Path) -> bool:
    """Say whether there are processes in a cgroup or below it."""
    return any(processes_of(Path(directory)) for directory, _, _ in os.walk(cgroup))
