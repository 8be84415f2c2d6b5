"""The status that a node writes of a cluster's pod, and the patch that does it. Values in, values out.

Mirrors pkg/kubelet/status/status_manager.go, v1.36, updateStatusInternal, mergePodStatus, syncPod. The patch replaces
the node's part of the status and names the version of the pod that it was made from: if somebody else has written
meanwhile, the server refuses it, and it is made anew. So a condition of somebody else's is never lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from syncpod.kubernetes.merge_patch import merge_patch

OURS: Final = frozenset(
    (
        "PodScheduled",
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodResizePending",
        "PodResizeInProgress",
        "AllContainersRestarting",
    )
)
"""The types of conditions that a node owns (pkg/kubelet/types/pod_status.go, v1.36, PodConditionByKubelet)."""
SHARED: Final = frozenset(("DisruptionTarget",))
"""Those that a node sets too (PodConditionSharedByKubelet)."""
FINISHED: Final = frozenset(("Succeeded", "Failed"))
_OTHERS: Final = ("nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus")
"""Fields of a status that somebody else writes."""


def pod_status(before: Mapping[str, Any], ours: Mapping[str, Any], *, generation: int) -> dict[str, Any]:
    """Return a pod's status for the API server, from the one that it has and the one that the node knows.

    `generation` is that of the pod that the node has acted on. A phase that is an end stays, and none is told before
    all containers have ended: controllers then take the pod's place.
    """
    status = dict(ours)
    status["conditions"] = _conditions(_list(before.get("conditions")), _list(ours.get("conditions")), generation)
    if ours.get("phase") in FINISHED and _runs(ours):
        status["phase"] = before.get("phase") or "Running"
    if before.get("phase") in FINISHED:
        status["phase"] = before["phase"]
    for name in _OTHERS:
        if name in before:
            status[name] = before[name]
    return {**status, **_observed(before, generation)}


def _observed(before: Mapping[str, Any], generation: int) -> dict[str, Any]:
    """Return the generation that was observed; that of before, while a new worker does not know it yet."""
    observed = generation or before.get("observedGeneration")
    return {"observedGeneration": observed} if observed else {}


def _runs(status: Mapping[str, Any]) -> bool:
    """Say whether a container runs."""
    kinds = ("initContainerStatuses", "containerStatuses")
    return any(_mapping(each.get("state")).get("running") for kind in kinds for each in _list(status.get(kind)))


def _conditions(
    before: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]], generation: int
) -> list[dict[str, Any]]:
    """Return all conditions: ours as they are now, and others' as they were."""
    known = {str(each.get("type")): each for each in before}
    owned = {str(each.get("type")): each for each in ours if str(each.get("type")) in OURS | SHARED}
    others = [dict(each) for name, each in known.items() if name not in OURS and name not in owned]
    return [*others, *(_condition(known.get(name), each, generation) for name, each in owned.items())]


def _condition(before: Mapping[str, Any] | None, now: Mapping[str, Any], generation: int) -> dict[str, Any]:
    """Return one of ours; its transition time changes with its status alone."""
    condition = {"lastProbeTime": None, **now}
    if before is not None and before.get("status") == now.get("status") and before.get("lastTransitionTime"):
        condition["lastTransitionTime"] = before["lastTransitionTime"]
    return {**condition, **_observed(before or {}, generation)}


def status_patch(pod: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the JSON merge patch of ``pods/status`` that makes a pod's status this; None if it is this.

    It holds for the pod's UID and version only.
    """
    before = _mapping(pod.get("status"))
    if same(before, status):
        return None
    return versioned_patch(pod, status)


def versioned_patch(given: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that makes an object's status this; it holds for the object's UID and version only."""
    metadata = _mapping(given.get("metadata"))
    return {
        "metadata": {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")},
        "status": merge_patch(_mapping(given.get("status")), status),
    }


def same(one: Any, other: Any) -> bool:
    """Say whether two values are the same to an API server, which leaves out what is empty."""
    return bool(_normal(one) == _normal(other))


def _normal(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: each for name, each in ((n, _normal(v)) for n, v in value.items()) if not _is_empty(each)}
    if isinstance(value, list | tuple):
        return [_normal(each) for each in value]
    return value


def _is_empty(value: Any) -> bool:
    return value is None or value == {} or value == [] or value == ""


def rejected(reason: str, message: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a pod that the node refuses (kubelet.go, v1.36, rejectPod)."""
    kept = {name: before[name] for name in ("qosClass", "startTime", "conditions", *_OTHERS) if name in before}
    return {**kept, "phase": "Failed", "reason": reason, "message": message}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Mapping[str, Any]]:
    found: Iterable[Any] = value if isinstance(value, list | tuple) else ()
    return [each for each in found if isinstance(each, Mapping)]
