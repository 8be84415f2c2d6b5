"""The status that a node writes for a cluster's pod, and the patch that writes it. Values in, values out.

Mirrors pkg/kubelet/status/status_manager.go, v1.36, updateStatusInternal, mergePodStatus, syncPod. The patch replaces
the node's part of the status and names the version of the pod from which it was made. If another client has written
meanwhile, the server refuses the patch, and a new one is made. So no condition of another client is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from syncpod.kubernetes.json_documents import mapping, mappings, merge_patch
from syncpod.kubernetes.mirror_pod import is_deleted, mirrored_uid

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
"""The types of conditions that a node and other clients set (PodConditionSharedByKubelet)."""
FINISHED: Final = frozenset(("Succeeded", "Failed"))
_KINDS: Final = ("initContainerStatuses", "containerStatuses")
_OTHERS: Final = ("nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus")
"""Fields of a status that other clients write."""


def status_for(pod: Mapping[str, Any], ours: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the node's status of a pod, with observed generations of the API server's Pod.

    The API server increments a Pod's generation for a deletion, and the node does not. When several containers join a
    pod at once, the API server increments it once, and the node once for each: for a moment, the node's number is the
    higher one. The generations of a static pod and of its mirror are unrelated.
    """
    status, newest = mapping(ours.get("status")), mapping(pod.get("metadata")).get("generation") or 0
    if mirrored_uid(pod):
        return _observing(status, lambda generation: None)
    if is_deleted(pod) and is_deleted(ours):
        return _observing(status, lambda generation: newest)
    return _observing(status, lambda generation: min(generation or 0, newest) or None)


def _observing(status: Mapping[str, Any], observed: Callable[[int | None], int | None]) -> dict[str, Any]:
    """Return a status with other observed generations, those of its conditions too."""
    name = "observedGeneration"
    conditions = [{**each, name: observed(each.get(name))} for each in mappings(status.get("conditions"))]
    return {**status, name: observed(status.get(name)), "conditions": conditions}


def without_replaced_ends(
    pod: Mapping[str, Any], ours: Mapping[str, Any], replacing: Collection[str]
) -> Mapping[str, Any]:
    """Return a status without the ends of containers that were ended only to be replaced.

    `replacing` are their ids in the runtime. Until their successors exist, these containers keep the state that the API
    server has: a kubelet ends and starts a container in one step, and reports nothing in between. If the pod's restart
    policy would not restart the container, an API server refuses any state after its end.
    """
    if not replacing or mapping(pod.get("spec")).get("restartPolicy", "Always") == "Always":
        return ours
    before = mapping(pod.get("status"))

    def merged(kind: str) -> list[Mapping[str, Any]]:
        known = {each.get("name"): each for each in mappings(before.get(kind))}
        return [_until_replaced(each, known.get(each.get("name"), {}), replacing) for each in mappings(ours.get(kind))]

    return {**ours, **{kind: merged(kind) for kind in _KINDS if kind in ours}}


def _until_replaced(now: Mapping[str, Any], before: Mapping[str, Any], replacing: Collection[str]) -> Mapping[str, Any]:
    is_replaced = str(now.get("containerID") or "").rpartition("://")[2] in replacing
    if not is_replaced or not mapping(now.get("state")).get("terminated"):
        return now
    return {**now, "state": before.get("state") or {"waiting": {"reason": "ContainerCreating"}}}


def pod_status(before: Mapping[str, Any], ours: Mapping[str, Any], *, went_on: bool = False) -> dict[str, Any]:
    """Return a pod's status for the API server, made from its present one, `before`, and the node's, `ours`.

    A final phase (Succeeded, Failed) stays, and is not written before all containers have ended: controllers replace
    the pod then. But if this node's last write had no final phase (`went_on`) and a container runs, another client has
    written the final phase, which is then corrected, as by a kubelet (status_manager.go, v1.36, needsReconcile). The
    observed generation never falls.
    """
    status = dict(ours)
    status["conditions"] = _conditions(mappings(before.get("conditions")), mappings(ours.get("conditions")))
    if ours.get("phase") in FINISHED and has_running(ours):
        status["phase"] = before.get("phase") or "Running"
    if before.get("phase") in FINISHED and not (went_on and has_running(ours)):
        status["phase"] = before["phase"]
    for name in _OTHERS:
        if name in before:
            status[name] = before[name]
    observed = max(before.get("observedGeneration") or 0, ours.get("observedGeneration") or 0)
    return {**status, "observedGeneration": observed or None}


def has_running(status: Mapping[str, Any]) -> bool:
    """Return whether a container of a pod with this status runs."""
    return any(mapping(each.get("state")).get("running") for kind in _KINDS for each in mappings(status.get(kind)))


def _conditions(before: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return all conditions: ours as they are now, and others' as they were."""
    known = {str(each.get("type")): each for each in before}
    owned = {str(each.get("type")): each for each in ours if str(each.get("type")) in OURS | SHARED}
    others = [dict(each) for name, each in known.items() if name not in OURS and name not in owned]
    return [*others, *(_condition(known.get(name), each) for name, each in owned.items())]


def _condition(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, Any]:
    """Return one of our conditions; its transition time changes only with its status."""
    condition = {"lastProbeTime": None, **now}
    if before is not None and before.get("status") == now.get("status") and before.get("lastTransitionTime"):
        condition["lastTransitionTime"] = before["lastTransitionTime"]
    return condition


def status_patch(pod: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the JSON merge patch of ``pods/status`` that sets a pod's status; None if it is the same already.

    The server accepts it only for this UID and version of the pod.
    """
    before = mapping(pod.get("status"))
    if same(before, status):
        return None
    return versioned_patch(pod, status)


def versioned_patch(given: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that sets an object's status; the server accepts it only for this UID and version."""
    metadata = mapping(given.get("metadata"))
    return {
        "metadata": {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")},
        "status": merge_patch(mapping(given.get("status")), status),
    }


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same to an API server, which leaves out empty fields."""
    return bool(_normal(one) == _normal(other))


def _normal(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: each for name, each in ((n, _normal(v)) for n, v in value.items()) if not _is_empty(each)}
    if isinstance(value, list | tuple):
        return [_normal(each) for each in value]
    return value


def _is_empty(value: Any) -> bool:
    return value is None or value == {} or value == [] or value == ""


def rejected(reason: str, message: str, pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a Pod that the node refuses (kubelet.go, v1.36, rejectPod)."""
    before, generation = mapping(pod.get("status")), mapping(pod.get("metadata")).get("generation")
    kept = {name: before[name] for name in ("qosClass", "startTime", "conditions", *_OTHERS) if name in before}
    return {**kept, "phase": "Failed", "reason": reason, "message": message, "observedGeneration": generation}
