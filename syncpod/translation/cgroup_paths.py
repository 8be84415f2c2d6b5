"""The cgroups of pods and of their tiers, as paths below each hierarchy's root."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from syncpod.lifecycle.qos import QOSClass, pod_qos
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory

TIERS: Mapping[QOSClass, str] = {"Guaranteed": "", "Burstable": "burstable", "BestEffort": "besteffort"}
"""By QoS class: the name of the cgroup between the parent of all pods and the pods of this class; "" = no such
cgroup."""


def pod_cgroup(node: NodeContext, pod: Pod) -> PurePosixPath:
    """Return the pod's cgroup as a path below each hierarchy's root; CRI calls it ``cgroup_parent``.

    With the cgroupfs driver this is ``/<parent>/<tier>/pod<uid>``; burstable and best-effort pods have a tier each,
    guaranteed pods are directly below the parent. With systemd the parts form the name of a slice, and dashes in a part
    become underscores. Each slice is inside the slice with the shorter name:
    ``/syncpod.slice/syncpod-burstable.slice/syncpod-burstable-pod<uid>.slice`` (cm/pod_container_manager_linux.go,
    v1.36, GetPodContainerName; cm/cgroup_manager_linux.go, ToCgroupfs, ToSystemd). Raises
    :class:`~syncpod.translation.paths.UnsafeName`.
    """
    return _pod_cgroup(node, TIERS[pod_qos(pod)], pod.metadata.uid)


def tier_cgroup(node: NodeContext, tier: str) -> PurePosixPath:
    """Return the cgroup above all pods of a tier.

    ``""`` is the tier of guaranteed pods, which contains the other tiers.
    """
    return _path(node, *_parts(node, tier))


def pod_cgroups(node: NodeContext, uid: str) -> tuple[PurePosixPath, ...]:
    """Return all paths that the cgroup of a pod with this UID may have: one in each tier.

    Raises :class:`~syncpod.translation.paths.UnsafeName`.
    """
    return tuple(_pod_cgroup(node, tier, uid) for tier in TIERS.values())


def _pod_cgroup(node: NodeContext, tier: str, uid: str) -> PurePosixPath:
    pod_directory(node, uid)
    return _path(node, *_parts(node, tier), f"pod{uid}")


def _parts(node: NodeContext, tier: str) -> tuple[str, ...]:
    parent = PurePosixPath(node.cgroup_parent.strip("/")).parts
    return (*parent, tier) if tier else parent


def _path(node: NodeContext, *parts: str) -> PurePosixPath:
    if node.cgroup_driver == "cgroupfs":
        return PurePosixPath("/", *parts)
    names = [part.replace("-", "_") for part in parts]
    return PurePosixPath("/", *(f"{'-'.join(names[:depth])}.slice" for depth in range(1, len(names) + 1)))
