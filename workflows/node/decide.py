"""What a node does next about its pods: which workflows are to be told what, and what waits until when.

Pure. Mirrors the kubelet's handlers of its sources' changes (kubelet.go, v1.36, HandlePodAdditions, HandlePodUpdates,
HandlePodRemoves) and the part of HandlePodCleanups that ends pods no source has. Difference: what is done is the pod's
own workflow's, which remembers; so here a pod is only named, given or ended, each once, and again until it is heard.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from syncpod.lifecycle import backoff
from syncpod.messages.node import (
    API_SOURCE,
    SEEN_ANNOTATION,
    SOURCE_ANNOTATION,
    ApplyPodWorkflow,
    DeletePod,
    DeletePodWorkflow,
    NodeStepName,
    PodWorkflowResult,
)
from syncpod.pod.static import HASH_ANNOTATION
from workflows.node.state import Governed, NodeState, Wanted, clipped, split

AT_ONCE: Final = 16
"""Pods' workflows that are told at the same time."""
SERVERS_MARKS: Final = ("resourceVersion", "creationTimestamp", "managedFields")
"""Metadata by which admission knows a document for a server's, as it does by a status, and drops its UID."""
UIDS_KEPT: Final = 7
"""Changes of one pod, none of them ever answered, after which its first UIDs are forgotten."""


@dataclass(frozen=True)
class Action:
    """One pod's workflow that is to be told something."""

    key: str
    name: NodeStepName
    input: ApplyPodWorkflow | DeletePodWorkflow
    summary: str
    """Why, as the UI shows it."""
    source: str = ""
    """apply_pod: for whose sake."""
    digest: str = ""
    """apply_pod: of the document."""
    uid: str = ""
    doubted: int = 0
    """apply_pod: how often the pod's list had been sent again when the step began; 0 = it is not for that."""


class Plan(NamedTuple):
    """What may be done now, and when something else may."""

    actions: tuple[Action, ...]
    retry_at: datetime | None
    waits_for: str = ""
    """Which pod that is."""


def plan(state: NodeState, now: datetime, busy: Container[str], *, room: int = AT_ONCE) -> Plan:
    """Return what is to be done now, at most `room` of it; of the pods in `busy` a step is under way."""
    actions: list[Action] = []
    waiting: list[tuple[datetime, str]] = []
    for key in state.pod_keys():
        until = backoff.held_until(state.backoff, key, now=now)
        if key in busy or (until is None and len(actions) >= room):
            continue
        action = _action(state, key)
        if action is None:
            continue
        if until is not None:
            waiting.append((until, key))
        else:
            actions.append(action)
    retry_at, waits_for = min(waiting, default=(None, ""))
    return Plan(tuple(actions), retry_at, waits_for)


def _action(state: NodeState, key: str) -> Action | None:
    """Return what one pod's workflow is to be told, whenever; None = it has been told all."""
    pod, current, wanted = split(key), state.governed.get(key), state.wanted(key)
    if (deletion := state.deletions.get(key)) is not None:
        uids = (deletion.uid,) if deletion.uid else ()
        return _end(key, uids, "deleted", grace=deletion.grace_period_seconds)
    if wanted is None:
        if current is None or state.is_unjudged(key):
            return None
        return _end(key, current.uids, f"no longer in {current.source}")
    if wanted.document is None or state.is_told(key):
        return None
    source = state.winner(key)
    replaces = tuple(uid for uid in state.uids(key) if uid != wanted.uid)
    is_same = current is not None and (current.source, current.digest) == (source, wanted.digest)
    doubted = current.doubted if current is not None and is_same and not current.ending else 0
    request = ApplyPodWorkflow(
        node=state.name,
        pod=_document(state, wanted, source),
        replaces=replaces,
        existing_only=state.unschedulable and source == API_SOURCE,
        unless_there=doubted > 0,
    )
    why = "in the place of an older one" if replaces else "as it is now" if current is not None else "new"
    if doubted:
        why = "if it has ended, as its list was sent again"
    summary = f"apply {pod.namespace}/{pod.name} of {source}: {why}"
    return Action(key, NodeStepName.APPLY_POD, request, summary, source, wanted.digest, wanted.uid, doubted)


def _end(key: str, uids: tuple[str, ...], why: str, *, grace: int | None = None) -> Action:
    pod = split(key)
    request = DeletePodWorkflow(namespace=pod.namespace, name=pod.name, uids=uids, grace_period_seconds=grace)
    return Action(key, NodeStepName.DELETE_POD, request, f"delete {key}: {why}")


def _document(state: NodeState, wanted: Wanted, source: str) -> dict[str, Any]:
    """Return the document as its workflow gets it: with the annotations that say where it is from, if from a list.

    The kubelet's time in the second one is that of its own start (config/config.go, v1.36, updatePodsFunc); here it is
    when the node first heard of the pod. The third has the pod's own UID, by which no copy of it is taken for the
    list's; the kubelet's pods of files have it too. A document that bears a server's marks goes without it, since its
    UID is dropped where it is taken.
    """
    document = dict(wanted.document or {})
    if source == API_SOURCE:
        return document
    metadata = dict(document.get("metadata") or {})
    seen = wanted.seen.isoformat() if wanted.seen is not None else ""
    given = metadata.get("annotations")
    annotations = dict(given) if isinstance(given, dict) else {}
    metadata["uid"] = wanted.uid
    metadata["annotations"] = {**annotations, SOURCE_ANNOTATION: source, SEEN_ANNOTATION: seen}
    metadata["annotations"].pop(HASH_ANNOTATION, None)
    if not (document.get("status") or any(metadata.get(mark) for mark in SERVERS_MARKS)):
        metadata["annotations"][HASH_ANNOTATION] = wanted.uid
    return {**document, "metadata": metadata}


def record_step(state: NodeState, action: Action) -> None:
    """Note that a step begins, which may have its effect whether or not that is ever heard.

    A pod that may have ended has to be applied anew; one that may be there has to be ended when nobody wants it. One
    that is told again stays in doubt until that is answered.
    """
    current = state.governed.get(action.key)
    if action.name == NodeStepName.DELETE_POD:
        if current is not None:
            state.governed[action.key] = current.model_copy(update={"ending": True})
    elif action.source != API_SOURCE and not action.doubted:
        before = [uid for uid in state.uids(action.key) if uid != action.uid]
        state.governed[action.key] = Governed(uids=(*before[-UIDS_KEPT:], action.uid), source=action.source)


# --- outcomes ---------------------------------------------------------------------------------------------------------


def finished(state: NodeState, action: Action, result: PodWorkflowResult, now: datetime) -> None:
    """Fold in that a pod's workflow was told, or has refused."""
    if action.name == NodeStepName.DELETE_POD:
        _ended(state, action, result, now)
    elif result.refused and action.source == API_SOURCE and not result.cordoned:
        _refused(state, action, result.refused, now)
    elif result.refused:
        failed(state, action, "Refused", result.refused, now)
    else:
        _applied(state, action, result, now)


def failed(state: NodeState, action: Action, reason: str, message: str, now: datetime) -> None:
    """Fold in that a pod's workflow could not be told; it is tried again after a back-off."""
    state.backoff = backoff.record_failure(state.backoff, action.key, now=now, reason=reason, message=clipped(message))
    what = "applied" if action.name == NodeStepName.APPLY_POD else "deleted"
    state.event(now, "Warning", "FailedPodSync", f"pod {action.key} cannot be {what}: {message}")


def _refused(state: NodeState, action: Action, why: str, now: datetime) -> None:
    """Fold in that a single pod is not taken. It is not tried again, as little as `syncpod apply` does.

    Nobody may want it any more by the time at which it would be taken: once the pod that it differs from has ended. A
    list says what it wants as long as it has it.
    """
    state.backoff = backoff.forget(state.backoff, action.key)
    _forget_single(state, action)
    state.event(now, "Warning", "FailedPodSync", f"pod {action.key} is not applied: {why}")


def _forget_single(state: NodeState, action: Action) -> None:
    """Let go of a single pod's document, unless another one has come meanwhile."""
    single = state.sources[API_SOURCE]
    if (wanted := single.pods.get(action.key)) is not None and wanted.digest == action.digest:
        del single.pods[action.key]


def _applied(state: NodeState, action: Action, result: PodWorkflowResult, now: datetime) -> None:
    state.backoff = backoff.forget(state.backoff, action.key)
    uid = action.uid or result.uid  # during a deletion the workflow answers with the UID of the pod that ends
    if action.source == API_SOURCE:
        _forget_single(state, action)
    else:
        current = state.governed.get(action.key)
        doubted = current.doubted - action.doubted if current is not None else 0  # what was sent again meanwhile
        state.governed[action.key] = Governed(uids=(uid,), source=action.source, digest=action.digest, doubted=doubted)
        state.forget_documents()
    if not result.there:
        state.event(now, "Normal", "PodApplied", f"pod {action.key} (uid {uid}) of {action.source}")


def _ended(state: NodeState, action: Action, result: PodWorkflowResult, now: datetime) -> None:
    """Fold in that a pod is ended. One of another UID has been ended by somebody else, and is none of this node's."""
    state.backoff = backoff.forget(state.backoff, action.key)
    state.governed.pop(action.key, None)
    deletion = state.deletions.get(action.key)
    if deletion is not None and _is_for(action, deletion):
        del state.deletions[action.key]
    if result.refused and deletion is not None:
        state.event(now, "Warning", "FailedPodSync", f"pod {action.key} is not deleted: {result.refused}")
    elif not result.absent and not result.refused:
        state.event(now, "Normal", "PodDeleted", f"{action.summary.removeprefix('delete ')}")


def _is_for(action: Action, deletion: DeletePod) -> bool:
    """Say whether a step was for this deletion, and not for one that another has followed meanwhile."""
    request = action.input
    return isinstance(request, DeletePodWorkflow) and (request.uids, request.grace_period_seconds) == (
        (deletion.uid,) if deletion.uid else (),
        deletion.grace_period_seconds,
    )


def tidy(state: NodeState, now: datetime) -> None:
    """Forget the back-offs of pods that nothing is to be said to any more."""
    state.backoff = backoff.collect_garbage(state.backoff, now=now)
    for key in [key for key in state.backoff.entries if _action(state, key) is None]:
        state.backoff = backoff.forget(state.backoff, key)
