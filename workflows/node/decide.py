"""Decides a node's next orders to its pods' workflows, and when they are retried.

Pure. Mirrors the kubelet's handlers of its sources' changes (kubelet.go, v1.36, HandlePodAdditions, HandlePodUpdates,
HandlePodRemoves) and the part of HandlePodCleanups that ends pods no source has. Difference: the pod's own workflow
does the work and remembers it. So this module only applies or deletes a pod, and repeats that until the pod's workflow
has received it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from syncpod.lifecycle import backoff
from syncpod.messages.node import (
    API_SOURCE,
    FILE_SOURCE,
    SEEN_ANNOTATION,
    SOURCE_ANNOTATION,
    ApplyPodWorkflow,
    ApplyPodWorkflows,
    DeleteFromNode,
    DeletePodWorkflow,
    DeletePodWorkflows,
    NodeStepName,
    PodKey,
    PodWorkflowResult,
)
from syncpod.pod.static import HASH_ANNOTATION
from workflows.event_log import clipped
from workflows.node.state import Governed, NodeState, Wanted
from workflows.summaries import LONGEST_SUMMARY, clip

AT_ONCE: Final = 16
"""The largest number of pods' workflows that get a message at the same time."""
SERVERS_MARKS: Final = ("resourceVersion", "creationTimestamp", "managedFields")
"""Metadata that only an API server writes. Admission drops the UID of a document that has any of it, or a status."""
TOGETHER_BYTES: Final = 256 * 1024
"""The most bytes that the documents of one step have together: the server warns of larger payloads."""
UIDS_KEPT: Final = 7
"""How many earlier UIDs of a pod are kept while its workflow answers none of its changes."""


@dataclass(frozen=True)
class Action:
    """An order to one pod's workflow."""

    key: str
    name: NodeStepName
    input: ApplyPodWorkflow | DeletePodWorkflow
    summary: str
    """The order and its reason, for the UI."""
    source: str = ""
    """apply_pod: the source that has the pod."""
    digest: str = ""
    """apply_pod: the document's digest."""
    uid: str = ""
    resync_requested: int = 0
    """apply_pod: how often the pod's list had been sent again when the step began; 0 if the step has another reason."""
    size: int = 0
    """apply_pod: how many bytes the document has."""


@dataclass(frozen=True)
class NodeStep:
    """One activity: an action, or several of one kind."""

    name: NodeStepName
    input: ApplyPodWorkflow | ApplyPodWorkflows | DeletePodWorkflow | DeletePodWorkflows
    summary: str
    actions: tuple[Action, ...]


class Plan(NamedTuple):
    """The step to take now, and when to look again."""

    actions: tuple[Action, ...]
    retry_at: datetime | None
    waits_for: str = ""
    """The key of the pod that is retried then; "" = none."""


def plan(state: NodeState, now: datetime, busy: Container[str], *, room: int = AT_ONCE) -> Plan:
    """Return the actions for now, at most `room`; the pods in `busy` have a step under way.

    Looks only at pods that have changed since their workflows were last up to date.
    """
    actions: list[Action] = []
    waiting: list[tuple[datetime, str]] = []
    for key in state.open_keys():
        until = backoff.held_until(state.backoff, key, now=now)
        if key in busy or (until is None and len(actions) >= room):
            continue
        action = _action(state, key)
        if action is None:
            state.settle(key)
            continue
        if until is not None:
            waiting.append((until, key))
        else:
            actions.append(action)
    retry_at, waits_for = min(waiting, default=(None, ""))
    return Plan(tuple(actions), retry_at, waits_for)


def steps(actions: Sequence[Action], alone: Container[str] = ()) -> list[NodeStep]:
    """Return the activities that carry out the actions: one for all deletions, and one for all pods that start.

    A pod has an activity of its own if it is in `alone`, if it replaces another pod, or if it is only checked.
    """
    together = {name: [each for each in actions if _joins(each, name) and each.key not in alone] for name in _TOGETHER}
    parts = [
        (name, part)
        for name, some in together.items()
        for part in (_parts(some) if name == NodeStepName.APPLY_POD else [some])
        if len(part) > 1
    ]
    joined = {each.key for _, part in parts for each in part}
    single = [NodeStep(each.name, each.input, each.summary, (each,)) for each in actions if each.key not in joined]
    return [*single, *(_several(name, part) for name, part in parts)]


_TOGETHER: Final = {
    NodeStepName.APPLY_POD: NodeStepName.APPLY_PODS,
    NodeStepName.DELETE_POD: NodeStepName.DELETE_PODS,
}
"""For each step about one pod: the step for several pods."""


def _joins(action: Action, name: NodeStepName) -> bool:
    """Say whether an action is of the kind `name`, and may share a step with others of its kind."""
    request = action.input
    return action.name == name and not (
        isinstance(request, ApplyPodWorkflow) and (request.replaces or request.unless_there)
    )


def _parts(actions: Sequence[Action]) -> Iterator[list[Action]]:
    """Divide actions, in their order, so that no part with several of them has more than `TOGETHER_BYTES`."""
    part: list[Action] = []
    for each in actions:
        if part and sum(other.size for other in part) + each.size > TOGETHER_BYTES:
            yield part
            part = []
        part.append(each)
    yield part


def _several(name: NodeStepName, actions: Sequence[Action]) -> NodeStep:
    """Return the activity that carries out several actions of one kind."""
    applied = tuple(each.input for each in actions if isinstance(each.input, ApplyPodWorkflow))
    deleted = tuple(each.input for each in actions if isinstance(each.input, DeletePodWorkflow))
    request = ApplyPodWorkflows(pods=applied) if applied else DeletePodWorkflows(pods=deleted)
    return NodeStep(_TOGETHER[name], request, _summary_of(_TOGETHER[name], actions), tuple(actions))


def _summary_of(name: NodeStepName, actions: Sequence[Action]) -> str:
    """Return why several pods start or end: each reason once, with the pods that have it."""
    by_reason: dict[str, list[str]] = {}
    for each in actions:
        _, _, why = each.summary.partition(each.key)
        by_reason.setdefault(why.lstrip(": "), []).append(each.key)
    reasons = "; ".join(f"{why}: {', '.join(keys)}" for why, keys in by_reason.items())
    what = "apply" if name == NodeStepName.APPLY_PODS else "delete"
    return clip(f"{what} {len(actions)} pods: {reasons}", LONGEST_SUMMARY - len(f"{name.value} • "))


def _action(state: NodeState, key: str) -> Action | None:
    """Return the order to one pod's workflow, regardless of back-offs; None if it is up to date."""
    pod, current, wanted = PodKey.of(key), state.governed.get(key), state.wanted(key)
    if (deletion := state.deletions.get(key)) is not None:
        uids = (deletion.uid,) if deletion.uid else ()
        return _end(key, uids, "deleted", grace=deletion.grace_period_seconds)
    if wanted is None or state.winner(key) == FILE_SOURCE:  # the agent begins and ends the pods of its directory
        if current is None or state.is_unjudged(key):
            return None
        return _end(key, current.uids, f"no longer in {current.source}")
    if wanted.document is None or state.is_applied(key):
        return None
    source = state.winner(key)
    replaces = tuple(uid for uid in state.uids(key) if uid != wanted.uid)
    is_same = current is not None and (current.source, current.digest) == (source, wanted.digest)
    resync_requested = current.resync_requested if current is not None and is_same and not current.ending else 0
    request = ApplyPodWorkflow(
        node=state.name,
        pod=document_of(wanted, source),
        replaces=replaces,
        existing_only=state.unschedulable and source == API_SOURCE,
        unless_there=resync_requested > 0,
    )
    why = "in the place of an older one" if replaces else "as it is now" if current is not None else "new"
    if resync_requested:
        why = "if it has ended, as its list was sent again"
    summary = f"apply {pod.namespace}/{pod.name} of {source}: {why}"
    return Action(
        key,
        NodeStepName.APPLY_POD,
        request,
        summary,
        source,
        wanted.digest,
        wanted.uid,
        resync_requested,
        size=wanted.size,
    )


def _end(key: str, uids: tuple[str, ...], why: str, *, grace: int | None = None) -> Action:
    pod = PodKey.of(key)
    request = DeletePodWorkflow(namespace=pod.namespace, name=pod.name, uids=uids, grace_period_seconds=grace)
    return Action(key, NodeStepName.DELETE_POD, request, f"delete {key}: {why}")


def document_of(wanted: Wanted, source: str) -> dict[str, Any]:
    """Return the document for the pod's workflow; a list's document gets annotations about its origin.

    SOURCE_ANNOTATION has the source. SEEN_ANNOTATION has the time at which the node first saw the pod; in the kubelet,
    that time does not survive a restart (config/config.go, v1.36, updatePodsFunc). HASH_ANNOTATION has the pod's own
    UID, so that a copy of the pod is not taken for the list's; the kubelet's pods from files have it too. A document
    with an API server's marks gets no HASH_ANNOTATION, because admission drops its UID.
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
    """Record that a step begins: it may take effect even if its result never comes.

    From now on the pod may have ended, and then must be applied again; or it may run, and then must be ended if no
    source wants it. A pod that is only checked stays in doubt until the step has answered.
    """
    current = state.governed.get(action.key)
    state.touch(action.key)
    if action.name == NodeStepName.DELETE_POD:
        if current is not None:
            state.governed[action.key] = current.model_copy(update={"ending": True})
    elif action.source != API_SOURCE and not action.resync_requested:
        before = [uid for uid in state.uids(action.key) if uid != action.uid]
        state.governed[action.key] = Governed(uids=(*before[-UIDS_KEPT:], action.uid), source=action.source)


# --- outcomes ---------------------------------------------------------------------------------------------------------


def finished(state: NodeState, action: Action, result: PodWorkflowResult, now: datetime) -> None:
    """Record that a pod's workflow has its order, or has refused it."""
    state.touch(action.key)
    if action.name == NodeStepName.DELETE_POD:
        _ended(state, action, result, now)
    elif result.refused and action.source == API_SOURCE and not result.cordoned:
        _refused(state, action, result.refused, now)
    elif result.refused:
        failed(state, action, "Refused", result.refused, now)
    else:
        _applied(state, action, result, now)


def failed(state: NodeState, action: Action, reason: str, message: str, now: datetime) -> None:
    """Record that a pod's workflow could not be reached; the order is sent again after a back-off."""
    state.backoff = backoff.record_failure(state.backoff, action.key, now=now, reason=reason, message=clipped(message))
    what = "applied" if action.name == NodeStepName.APPLY_POD else "deleted"
    state.event(now, "Warning", "FailedPodSync", f"pod {action.key} cannot be {what}: {message}")


def _refused(state: NodeState, action: Action, why: str, now: datetime) -> None:
    """Record that a single pod was refused. Like `syncpod apply`, the node does not try it again.

    A retry would succeed once the conflicting pod has ended, but the refused pod's sender may not want it any more. A
    list, by contrast, wants its pods for as long as it names them.
    """
    state.backoff = backoff.forget(state.backoff, action.key)
    _forget_single(state, action)
    state.event(now, "Warning", "FailedPodSync", f"pod {action.key} is not applied: {why}")


def _forget_single(state: NodeState, action: Action) -> None:
    """Drop a single pod's document, unless another one has come in meanwhile."""
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
        # The remainder counts how often the list was sent again meanwhile.
        resync_requested = current.resync_requested - action.resync_requested if current is not None else 0
        state.governed[action.key] = Governed(
            uids=(uid,), source=action.source, digest=action.digest, resync_requested=resync_requested
        )
        state.forget_document(action.key)
    if not result.there:
        state.event(now, "Normal", "PodApplied", f"pod {action.key} (uid {uid}) of {action.source}")


def _ended(state: NodeState, action: Action, result: PodWorkflowResult, now: datetime) -> None:
    """Record that a pod has ended. A refusal has the same effect: a pod with another UID has the name."""
    state.backoff = backoff.forget(state.backoff, action.key)
    _forget_ended(state, action)
    deletion = state.deletions.get(action.key)
    if deletion is not None and _is_for(action, deletion):
        del state.deletions[action.key]
    if result.refused and deletion is not None:
        state.event(now, "Warning", "FailedPodSync", f"pod {action.key} is not deleted: {result.refused}")
    elif result.absent and deletion is not None:
        state.event(now, "Warning", "NotFound", f"pod {action.key} is not deleted: it is not here")
    elif not result.absent and not result.refused:
        state.event(now, "Normal", "PodDeleted", f"{action.summary.removeprefix('delete ')}")


def _forget_ended(state: NodeState, action: Action) -> None:
    """Forget the pods that a step has ended, except those that were recalled while it was under way."""
    current, request = state.governed.pop(action.key, None), action.input
    if current is None or not isinstance(request, DeletePodWorkflow) or not request.uids:
        return
    if left := tuple(uid for uid in current.uids if uid not in request.uids):
        state.governed[action.key] = current.model_copy(update={"uids": left, "digest": "", "ending": False})


def _is_for(action: Action, deletion: DeleteFromNode) -> bool:
    """Say whether a step was for this deletion, and not for an earlier one."""
    request = action.input
    return isinstance(request, DeletePodWorkflow) and (request.uids, request.grace_period_seconds) == (
        (deletion.uid,) if deletion.uid else (),
        deletion.grace_period_seconds,
    )


def tidy(state: NodeState, now: datetime) -> None:
    """Forget the back-offs of pods whose workflows are up to date."""
    state.backoff = backoff.collect_garbage(state.backoff, now=now)
    for key in [key for key in state.backoff.entries if _action(state, key) is None]:
        state.backoff = backoff.forget(state.backoff, key)
