"""The desired pod and how it may change: apply, resize, another ephemeral container, deletion.

Updates and signals both use this. Each function checks first, changes nothing if it refuses, and returns the answer to
an update.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from syncpod.journal.records import Fact
from syncpod.lifecycle import backoff
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.pod_resources import resources_of, same_resources
from syncpod.lifecycle.qos import validate_same_qos
from syncpod.lifecycle.termination import moment_after
from syncpod.messages.pod_commands import AppliedPod, Change
from syncpod.messages.signals import DeletePod
from syncpod.messages.signed import Accepted
from syncpod.pod import (
    Admission,
    Pod,
    PodInvalid,
    Problem,
    Volume,
    admit,
    admit_ephemeral_container,
    check_size,
    downward_files,
    merge_update,
    pod_changes,
    pod_to_wire,
    resized,
    validate_update,
)
from syncpod.pod.origin import FILE_SOURCE, KUBERNETES_SOURCE, is_order_of_source, list_of
from workflows.pod import resizing
from workflows.pod.state import Deletion, PodState
from workflows.rejections import Rejected

_REMEMBERED: Final = 32
"""The most admissions that are cached: no more pods than these have their first task at the same time."""
_LONGEST_REMEMBERED: Final = 16 * 1024
"""The longest document that is cached, in characters of JSON. So the whole cache takes a few MiB at most."""
_LONGEST_GRACE: Final = 2**63 - 1
"""The greatest grace that the API can carry."""

_ONLY_ITS_SOURCE: Final = {
    FILE_SOURCE: "it comes from the manifest directory of node {node}: change its file there",
    KUBERNETES_SOURCE: "it comes from the Kubernetes cluster of node {node}: change it there, by kubectl",
}
"""By source: the reason for refusing a change of its pod by anybody else."""


def apply(state: PodState, document: Any, now: datetime) -> dict[str, Any]:
    """Take a Pod document as the desired pod; return an AppliedPod. A repeat changes nothing. Raises PodInvalid.

    During a deletion, the document becomes the successor, which starts when this pod has ended. A change is limited to
    the fields that the API server allows to change (validation.go, v1.36, ValidatePodUpdate, ValidatePodResize).
    """
    new = admitted(document).pod
    for_another = new.metadata.name, new.metadata.namespace
    mine = state.pod.metadata
    if for_another != (mine.name, mine.namespace):
        raise PodInvalid((Problem("metadata.name", f"must be {mine.namespace}/{mine.name}, the pod of this workflow"),))
    if state.deletion is not None:
        state.successor = pod_to_wire(new)
        why = "the pod is being deleted; this one follows"
        state.note(now, "update", "apply", why, fact=Fact.SUCCESSOR_APPLIED)
        return _applied(state, Change.FOLLOWS)
    before = state.pod
    _take(state, new, now, "apply")
    return _applied(state, Change.UNCHANGED if state.pod is before else Change.CONFIGURED)


def _applied(state: PodState, change: Change) -> dict[str, Any]:
    meta, node = state.pod.metadata, state.pod.spec.node_name
    return AppliedPod(uid=meta.uid, generation=meta.generation, change=change, node=node).on_wire()


def _identity(state: PodState) -> dict[str, Any]:
    """Return the pod that an update has reached: `uid` and `generation`."""
    return {"uid": state.pod.metadata.uid, "generation": state.pod.metadata.generation}


def require_source(state: PodState, document: Any, _now: datetime) -> None:
    """Raise Rejected if anybody but its source changes a pod of a manifest or of a cluster.

    Only the source may change its pod (in a cluster, the API server refuses changes of a static pod's mirror). Replay:
    updates are refused before they are in the history, since earlier versions have accepted such updates.
    """
    mine = state.pod
    if (why := _ONLY_ITS_SOURCE.get(list_of(mine.metadata))) is None:
        return
    new = admitted(document).pod
    if is_order_of_source(new.metadata):
        return
    is_repeat = (
        new.metadata.annotations == mine.metadata.annotations
        and not validate_update(mine, new)
        and merge_update(mine, new) == mine
    )
    if state.deletion is not None or not is_repeat:
        raise Rejected(why.format(node=mine.spec.node_name))


def resize(state: PodState, document: Any, now: datetime) -> dict[str, Any]:
    """Change the pod's CPU and memory, and nothing else; amounts that are not named stay as they are.

    Raises PodInvalid, which names the field, and Rejected if the pod is ending.
    """
    if state.ending:
        raise Rejected("the pod is being deleted or has finished: its containers cannot be resized")
    _take(state, resized(state.pod, document), now, "resize")
    return _identity(state)


def _take(state: PodState, new: Pod, now: datetime, update: str) -> None:
    """Take the pod that results from `update` as the desired one. Raises PodInvalid."""
    problems = [*validate_update(state.pod, new), *validate_same_qos(state.pod, new)]
    if state.ending and not same_resources(resources_of(state.pod), resources_of(new)):
        problems.append(Problem("spec", "the pod has finished or failed: its containers cannot be resized"))
    if problems:
        raise PodInvalid(problems)
    updated = merge_update(state.pod, new)
    if updated == state.pod:
        return
    _forget_old_images(state, updated)
    before = state.pod
    resizing.desire(state, updated)
    retry_admission(state)
    state.volumes_behind = state.volumes_behind or _shows_what_changed(before, updated)
    same_spec = updated.metadata.generation == before.metadata.generation
    same_owners = updated.metadata.owner_references == before.metadata.owner_references
    what = "labels or annotations" if same_owners else "owners"
    what = what if same_spec else f"generation {updated.metadata.generation}"
    changed = pod_changes(before, updated)
    why = f"{what}: {', '.join(changed)}" if changed else what
    state.note(now, "update", update, why, fact="" if same_spec else Fact.SPEC_CHANGED)


def retry_admission(state: PodState) -> None:
    """End the back-off before a rejected pod's next admission, since the pod or the node has changed."""
    if state.rejection is not None:
        state.backoff = backoff.forget(state.backoff, backoff.step_key(StepName.CREATE_SANDBOX.value))


def _shows_what_changed(before: Pod, updated: Pod) -> bool:
    """Say whether the labels or annotations have changed, and a volume has files that show them."""
    same = (before.metadata.labels, before.metadata.annotations) == (
        updated.metadata.labels,
        updated.metadata.annotations,
    )
    return not same and any(_shows_metadata(volume) for volume in updated.spec.volumes)


def _shows_metadata(volume: Volume) -> bool:
    """Say whether a volume has files with the pod's labels or annotations."""
    return any(
        file.field_ref is not None and file.field_ref.field_path.startswith(("metadata.labels", "metadata.annotations"))
        for file in downward_files(volume)
    )


def _forget_old_images(state: PodState, updated: Pod) -> None:
    """Forget the state of images that containers no longer use."""
    spec = updated.spec
    images = {container.name: container.image for container in (*spec.init_containers, *spec.containers)}
    changed = {name for name, image in images.items() if state.container(name).image != image}
    state.missing_images = tuple(name for name in state.missing_images if name not in changed)
    state.pulled = {name: restart for name, restart in state.pulled.items() if name not in changed}
    state.waiting = {name: why for name, why in state.waiting.items() if name not in changed}
    for name in sorted(changed):
        state.backoff = backoff.forget(state.backoff, backoff.step_key("start", name))


def add_ephemeral_container(state: PodState, document: Any, now: datetime) -> dict[str, Any]:
    """Add an ephemeral container to the pod, unless the pod has one of this name.

    Raises PodInvalid, also for one that makes the pod too large for continue-as-new, or Rejected if the pod is being
    deleted or has finished.
    """
    if state.deletion is not None or state.terminated:
        raise Rejected("the pod is being deleted or has finished: no container can be added")
    container = admit_ephemeral_container(state.pod, document)
    if any(each.name == container.name for each in state.pod.spec.ephemeral_containers):
        return _identity(state)
    meta = state.pod.metadata.model_copy(update={"generation": (state.pod.metadata.generation or 1) + 1})
    spec = state.pod.spec.model_copy(update={"ephemeral_containers": (*state.pod.spec.ephemeral_containers, container)})
    state.pod = state.pod.model_copy(update={"metadata": meta, "spec": spec})
    state.note(now, "update", "add_ephemeral_container", container.name)
    if problems := check_size(state.pod):
        raise PodInvalid(problems)
    return _identity(state)


def delete(state: PodState, request: DeletePod, now: datetime) -> dict[str, Any]:
    """End the pod. If this begins the deletion, the answer has `since`, the time of its line of history.

    The sender uses that time to find the line about its own update.

    A later request can only shorten the grace (pod_workers.go, v1.36, calculateEffectiveGracePeriod).

    A request also drops the successor, unless it names the UID of the ending pod. A person who deletes a name after
    applying it wants no pod of that name. A request that names the successor's UID does not change the grace of the
    pod that is ending. Raises Rejected for another UID, and for a grace below 0 or above the API's greatest number.
    """
    lives = (state.pod.metadata.uid, _successor_uid(state))
    if request.uid and request.uid not in lives:
        raise Rejected(f"uid: is {state.pod.metadata.uid}, not {request.uid}")
    own = state.pod.spec.termination_grace_period_seconds
    grace = request.grace_period_seconds
    if grace is None:
        grace = 30 if own is None else own
    if grace < 0:
        raise Rejected("gracePeriodSeconds: must be 0 or more")
    if grace > _LONGEST_GRACE:
        raise Rejected(f"gracePeriodSeconds: must be no more than {_LONGEST_GRACE}")
    if state.successor is not None and request.uid in ("", _successor_uid(state)):
        state.successor = None
        why = "the pod applied during the deletion does not follow"
        state.note(now, "update", "delete", why, fact=Fact.SUCCESSOR_DROPPED)
        if request.uid not in ("", state.pod.metadata.uid):
            return _identity(state)
    begins = state.deletion is None
    if state.deletion is None:
        state.deletion = Deletion(requested_at=now, grace_seconds=grace)
        state.ends_sooner = True
        state.note(now, "update", "delete", f"grace {grace} s", fact=Fact.DELETED, seconds=grace)
    elif grace < state.deletion.grace_seconds:
        state.deletion = state.deletion.model_copy(update={"grace_seconds": grace})
        state.forget_stuck_kills()
        why = f"grace shortened to {grace} s"
        state.note(now, "update", "delete", why, fact=Fact.GRACE_SHORTENED, seconds=grace)
    else:
        return _identity(state)
    if state.kill_by is not None:
        state.kill_by = min(state.kill_by, moment_after(now, grace))
    deleted_at = moment_after(now, grace)
    meta = state.pod.metadata.model_copy(
        update={"deletion_timestamp": deleted_at, "deletion_grace_period_seconds": grace}
    )
    state.pod = state.pod.model_copy(update={"metadata": meta})
    return _identity(state) | ({"since": now.isoformat()} if begins else {})


def _successor_uid(state: PodState) -> str:
    """Return the UID in the successor's manifest; "" if the manifest has none, or there is no successor."""
    metadata = (state.successor or {}).get("metadata", {})
    return str(metadata.get("uid", ""))


def successor_of(state: PodState) -> dict[str, Any] | None:
    """Return the workflow input of the successor's run; None if no pod was applied during the deletion.

    If the successor has the UID of this pod, as a static pod does, its restart counts continue from this pod's. The
    counts continue in the kubelet too, which finds the containers of the earlier life in its runtime
    (kuberuntime_container.go, v1.36, startContainer).
    """
    if state.successor is None:
        return None
    given: dict[str, Any] = {"pod": state.successor}
    # The new run must accept commands that were signed before it began, but no copies of those accepted here.
    if state.accepted != Accepted():
        given["accepted"] = state.accepted.model_dump()
    if state.restarts and _successor_uid(state) == state.pod.metadata.uid:
        given["restarts"] = state.restarts
    return given


def as_pod(state: PodState) -> Pod:
    """Return the whole pod with its status, as ``kubectl get -o json`` has it."""
    return state.pod.model_copy(update={"status": state.status})


def admitted(document: Any) -> Admission:
    """Admit a document as :func:`syncpod.pod.admit` does. Raises PodInvalid.

    The result is cached. A first apply brings the same document three times: in the workflow's input, and to the
    validator and the handler of the update. The admission depends on nothing but the document.
    """
    try:
        text = json.dumps(document)
    except (TypeError, ValueError, RecursionError):  # not JSON; `admit` raises PodInvalid with the reason
        return admit(document)
    return _admitted(text) if len(text) <= _LONGEST_REMEMBERED else admit(document)


@lru_cache(maxsize=_REMEMBERED)
def _admitted(text: str) -> Admission:
    return admit(json.loads(text))
