"""Where the cgroups of pods and of their tiers lie, as paths below each hierarchy's root."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from syncpod.lifecycle.qos import QOSClass, pod_qos
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory

TIERS: Mapping[QOSClass, str] = {"Guaranteed": "", "Burstable": "burstable", "BestEffort": "besteffort"}
"""By class of pods: the name of the cgroup between them and the parent of all."""


def pod_cgroup(node: NodeContext, pod: Pod) -> PurePosixPath:
    """Return the pod's cgroup as a path below each hierarchy's root; it is what ``cgroup_parent`` is given.

    With the cgroupfs driver ``/<parent>/<tier>/pod<uid>``, where burstable and best-effort pods have a tier of their
    own, and guaranteed ones lie above these. With systemd the parts form the name of a slice, dashes in them written as
    underscores, and each slice lies in the one named by its beginning:
    ``/syncpod.slice/syncpod-burstable.slice/syncpod-burstable-pod<uid>.slice``
    (cm/pod_container_manager_linux.go, v1.36, GetPodContainerName; cm/cgroup_manager_linux.go, ToCgroupfs, ToSystemd).
    Raises :class:`~syncpod.translation.paths.UnsafeName`.
    """
    return _pod_cgroup(node, TIERS[pod_qos(pod)], pod.metadata.uid)


def tier_cgroup(node: NodeContext, tier: str) -> PurePosixPath:
    """Return the cgroup above all pods of a tier; ``""`` is that of the guaranteed, which is above the tiers too."""
    return _path(node, *_parts(node, tier))


def pod_cgroups(node: NodeContext, uid: str) -> tuple[PurePosixPath, ...]:
    """Return wherever the cgroup of a pod may be, of which only the UID is known: in each tier.

    That of the guaranteed is also where all pods were before there were tiers. Raises
    :class:`~syncpod.translation.paths.UnsafeName`.
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
