"""Signals and updates to a node, folded into its state.

The workflow's handlers only collect them; they are parsed here. No signal can fail the node: an invalid one becomes a
rejection, an event that ``describe node`` shows.

Only the name of a document is read here. Two others check whether the pod can run: the step that hands it on, and the
pod's own workflow. So a version with stricter rules can still replay the node's history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from syncpod.journal.records import SERVER_REACHABLE, SERVER_UNREACHABLE
from syncpod.lifecycle import backoff
from syncpod.messages.node import (
    API_SOURCE,
    FILE_SOURCE,
    KEPT_BYTES,
    KNOWN_LIMIT,
    KUBERNETES_SOURCE,
    LIST_LIMIT,
    LISTED_LIMIT,
    MADE_LIMIT,
    OUTAGES_REPORTED,
    ApplyToNode,
    Cordon,
    DeleteFromNode,
    DesiredPod,
    MadePod,
    NodeStatus,
    RecallPods,
    StaticPods,
    SyncPods,
    document_size,
)
from syncpod.messages.node_commands import (
    APPLY,
    CORDON,
    DELETE,
    NODE_STATUS,
    RECALL_PODS,
    STATIC_PODS,
    SYNC_PODS,
    UNCORDON,
)
from syncpod.pod import admit, content_uid
from workflows.effects import Effect, effects
from workflows.node.state import Governed, NodeState, Source, Wanted, canonical, digest, key_of
from workflows.rejections import Rejected, sentence

SOURCES_LIMIT: Final = 16
"""How many sources a node can have."""
NO_CLUSTER_DNS: Final = (
    "There is no cluster DNS here: pods with dnsPolicy ClusterFirst, which is the default, use the host's resolver."
)
"""The message of the event MissingClusterDNS. A kubelet records it for each sandbox without cluster DNS; a node here
records it once after each start."""
_SENDER_LENGTH = 100
"""How many characters of a sender's name are kept."""


def absorb(state: NodeState, name: str, args: tuple[Any, ...], now: datetime) -> None:
    """Fold one signal into the state, or record its rejection. Never raises.

    Every exception is caught on purpose: a signal stays in the history, so an exception here would fail the same
    workflow task again and again, on every worker.
    """
    try:
        change(state, name, args, now)
    except Exception as wrong:  # noqa: BLE001  # Replay: see above
        state.reject(now, f"signal {name}", sentence(wrong))


def change(state: NodeState, name: str, args: tuple[Any, ...], now: datetime) -> None:
    """Fold one signal or update into the state.

    If it raises Rejected or ValidationError, it has changed nothing.
    """
    if name not in EFFECTS:
        raise Rejected("no such signal or update")
    EFFECTS[name](state, args, now)


def require_valid(asked: Any) -> None:
    """Check the document of an `apply`. Raises PodInvalid with the path of the wrong field."""
    admit(ApplyToNode.model_validate(asked).pod)


def too_many(name: str, args: tuple[Any, ...]) -> str:
    """Return the sentence that refuses a list with too many pods for one workflow task; "" if it is not too long."""
    pods = (
        args[0].get("pods")
        if name in (SYNC_PODS.name, STATIC_PODS.name) and len(args) == 1 and isinstance(args[0], dict)
        else None
    )
    if not isinstance(pods, list) or len(pods) <= LISTED_LIMIT:
        return ""
    return f"pods: must be no more than {LISTED_LIMIT}, there are {len(pods)}"


# --- lists ------------------------------------------------------------------------------------------------------------


def _sync_pods(state: NodeState, signal: SyncPods, now: datetime) -> None:
    """Take the full list of one source (config/config.go, v1.36, SET; filterInvalidPods).

    Differences: a pod whose new document is invalid goes on as before. If the same list is sent again, each of its pods
    is checked, since a person may have ended some of them. The kubelet ignores such a list (podStorage.merge), and
    restarts its pods anyway.
    """
    if not signal.source or len(signal.source) > 63 or signal.source in (API_SOURCE, FILE_SOURCE, KUBERNETES_SOURCE):
        raise Rejected(f"source: must be the name of a list, 1 to 63 characters, not {signal.source[:63]!r}")
    state.touch_all()
    before = state.sources.get(signal.source, Source())
    spent = _require_room(state, signal)
    pods, problems = _listed(signal, before, state.name, now)
    state.sources.pop(spent, None)
    _request_resync(state, signal.source, pods)
    for problem in problems:
        state.reject(now, f"signal sync_pods of {signal.source}", problem)
    state.sources[signal.source] = Source(reported_at=now, pods=pods)
    for key in _changed(before.pods, pods):
        state.backoff = backoff.forget(state.backoff, key)  # a new or changed pod is tried at once
    _record_duplicates(state, signal.source, pods.keys() - before.pods.keys(), now)
    state.forget_documents()


def _require_room(state: NodeState, signal: SyncPods) -> str:
    """Return a source to drop for the signal's list; "" = none. Raises Rejected if there is no room for the list."""
    spent = ""
    if signal.source not in state.sources and len(state.sources) >= SOURCES_LIMIT:
        spent = _spent(state)
        if not spent:
            raise Rejected(f"source: the node follows {SOURCES_LIMIT} sources already")
    if not _has_room(state, sum(map(document_size, signal.pods)), but=signal.source, known=len(signal.pods)):
        raise Rejected(
            f"pods: together with the pods of other lists, they are larger than the limit of {LIST_LIMIT} bytes, or of "
            f"{KNOWN_LIMIT} bytes with {KEPT_BYTES} more for each pod"
        )
    return spent


def _has_room(state: NodeState, given: int, *, known: int, but: str = "") -> bool:
    """Say whether `known` more pods, with `given` bytes of documents, fit into a snapshot without the source `but`."""
    sources = [source for name, source in state.sources.items() if name != but]
    documents = given + sum(each.size for source in sources for each in source.pods.values())
    pods = known + sum(len(source.pods) for source in sources)
    return documents <= LIST_LIMIT and documents + KEPT_BYTES * pods <= KNOWN_LIMIT


def _changed(before: Mapping[str, Wanted], after: Mapping[str, Wanted]) -> list[str]:
    """Return the keys of the pods that a list has added, changed or dropped."""
    other = [key for key, wanted in before.items() if key not in after or after[key].digest != wanted.digest]
    return [*other, *(key for key in after if key not in before)]


def _spent(state: NodeState) -> str:
    """Return the source that has been empty the longest and has no pod left; "" if there is none.

    Sources are kept as long as there is room: pods that are recalled for a source later end only once it has reported.
    """
    needed = {API_SOURCE, FILE_SOURCE, *(each.source for each in state.governed.values())}
    idle = [
        (source.reported_at, name)
        for name, source in state.sources.items()
        if source.reported_at is not None and not source.pods and name not in needed
    ]
    return min(idle)[1] if idle else ""


def _request_resync(state: NodeState, source: str, pods: Mapping[str, Wanted]) -> None:
    """Mark the unchanged pods of a repeated list to be checked, since somebody else may have ended them."""
    for key, wanted in pods.items():
        current = state.governed.get(key)
        if current is not None and (current.source, current.digest) == (source, wanted.digest):
            state.governed[key] = current.model_copy(update={"resync_requested": current.resync_requested + 1})


def _listed(signal: SyncPods, before: Source, node: str, now: datetime) -> tuple[dict[str, Wanted], list[str]]:
    """Return the pods of a list by key, and the problems of the invalid ones. The first pod of a name counts.

    The node's name is part of the UIDs' origin: if a fleet gives one document to two nodes, these are two pods.
    """
    origin = (f"host:{node}", f"source:{signal.source}")
    pods: dict[str, Wanted] = {}
    problems: list[str] = []
    for index, document in enumerate(signal.pods):
        try:
            key, wanted = wanted_by(document, now, origin=origin, before=before.pods)
        except Rejected as wrong:
            problems.append(f"pods[{index}].{wrong}")
            continue
        if key in pods:
            problems.append(f"pods[{index}]: ignored, being another pod {key} of the same list")
            continue
        old = before.pods.get(key)
        seen = old.seen if old is not None and old.uid == wanted.uid else now
        pods[key] = wanted.model_copy(update={"seen": seen})
    return pods, problems


def wanted_by(
    document: Any, now: datetime, *, origin: Sequence[str] = (), before: Mapping[str, Wanted] | None = None
) -> tuple[str, Wanted]:
    """Return a document's key and the pod that it describes. Raises Rejected with the path of the problem.

    If a list's pod has no UID, it gets one from its content and the list's `origin`, so a changed pod is another pod. A
    document that is the same in `before` keeps its UID.
    """
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        raise Rejected("metadata: required")
    texts = {name: metadata.get(name) or "" for name in ("name", "namespace", "uid")}
    for name, text in texts.items():
        if not isinstance(text, str) or "/" in text or len(text) > 253:
            raise Rejected(f"metadata.{name}: must be a name")
    if not texts["name"]:
        raise Rejected("metadata.name: required")
    key = key_of(texts["namespace"], texts["name"])
    text = canonical(document)
    says, old = digest(text), (before or {}).get(key)
    if old is not None and old.digest == says:
        uid = old.uid
    else:
        uid = texts["uid"] or (content_uid(text, *origin) if origin else "")
    return key, Wanted(uid=uid, digest=says, document=document, size=len(text), seen=now)


def _record_duplicates(state: NodeState, source: str, new: set[str], now: datetime) -> None:
    """Record an event for each new pod that another source names too, with the source that counts."""
    for key in sorted(new):
        others = [name for name in state.candidates(key) if name != source]
        if others:
            names = ", ".join(sorted((source, *others)))
            state.event(
                now, "Warning", "DuplicatePod", f"pod {key} is named by {names}: that of {state.winner(key)} counts"
            )


def _static_pods(state: NodeState, signal: StaticPods, now: datetime) -> None:
    """Take the agent's report of the pods of its manifests. They are shown, and no list may have them."""
    if not _has_room(state, 0, known=len(signal.pods), but=FILE_SOURCE):
        raise Rejected(f"pods: with the lists' they are too many to be shown: {len(signal.pods)}")
    state.touch_all()
    before = state.static
    state.static = {
        key_of(each.namespace, each.name): each
        for each in signal.pods
        if _are_names(each.namespace, each.name) and "/" not in each.uid
    }
    named = {key: Wanted(uid=each.uid) for key, each in state.static.items() if each.state != "ending"}
    new = named.keys() - state.sources.get(FILE_SOURCE, Source()).pods.keys()
    state.sources[FILE_SOURCE] = Source(reported_at=now, boot=signal.boot, pods=named)
    # An earlier version applied these pods by steps of the node's workflow.
    state.governed = {key: each for key, each in state.governed.items() if each.source != FILE_SOURCE}
    _record_changes(state, before, now)
    for each in signal.gone:
        state.event(
            now,
            "Normal",
            "PodGone",
            f"pod {key_of(each.namespace, each.name)} has ended although its manifest is there, and is made anew",
        )
    for why in signal.begun_anew:
        state.event(now, "Normal", "PodGone", why)
    for problem in signal.problems:
        state.event(now, "Warning", "FailedManifest", problem)
    _record_duplicates(state, FILE_SOURCE, new, now)
    state.forget_documents()


def _record_changes(state: NodeState, before: Mapping[str, DesiredPod], now: datetime) -> None:
    """Record events for the changes of the manifests' pods since the last report, `before`."""
    for key, each in state.static.items():
        old = before.get(key, DesiredPod())
        if each.state == "applied" and (old.state, old.uid) != ("applied", each.uid):
            state.event(now, "Normal", "PodApplied", f"pod {key} (uid {each.uid}) of {FILE_SOURCE}")
        if each.message and each.message != old.message:
            what = "deleted" if each.state == "ending" else "applied"
            state.event(now, "Warning", "FailedPodSync", f"pod {key} cannot be {what}: {each.message}")
    for key in sorted(before.keys() - state.static.keys()):
        state.event(now, "Normal", "PodDeleted", f"{key}: no longer in {FILE_SOURCE}")


def _recall(state: NodeState, signal: RecallPods, now: datetime) -> None:
    """Take over pods that the node's records show as made for lists, unless their names are known already.

    The kubelet does not need this: it ends running pods that no source names (kubelet_pods.go, v1.36,
    HandlePodCleanups). Here a pod's own workflow decides whether the pod is desired, and runs without the node's
    workflow.
    """
    if len(signal.pods) > MADE_LIMIT:
        raise Rejected(f"pods: must be no more than {MADE_LIMIT}, there are {len(signal.pods)}")
    state.touch_all()
    recalled = 0
    for pod in signal.pods:
        key = key_of(pod.namespace, pod.name)
        current = state.governed.get(key, Governed(source=pod.source))
        if not _is_right(pod) or current.digest or pod.uid in current.uids:
            continue
        state.governed[key] = current.model_copy(update={"uids": (pod.uid, *current.uids)})
        # A pod that was refused because the recalled pod has its name may replace the recalled pod now.
        state.backoff = backoff.forget(state.backoff, key)
        recalled += 1
    if recalled:
        state.event(now, "Normal", "PodsRecalled", f"{recalled} earlier pods of lists were reported by the agent")


def _is_right(pod: MadePod) -> bool:
    """Say whether a recalled pod has valid names for a pod of a list."""
    return _are_names(pod.namespace, pod.name, pod.uid, pod.source) and pod.source != API_SOURCE


def _are_names(*texts: str) -> bool:
    return all(text and "/" not in text and len(text) <= 253 for text in texts)


# --- single pods ------------------------------------------------------------------------------------------------------


def _apply(state: NodeState, signal: ApplyToNode, now: datetime) -> None:
    try:
        key, wanted = wanted_by(signal.pod, now)
    except Rejected as wrong:
        raise Rejected(f"pod.{wrong}") from None
    _require_free(state, key)
    single = state.sources.get(API_SOURCE, Source())
    if not _has_room(state, wanted.size, known=1):
        raise Rejected("pod: too many bytes of pods already wait to be applied; try again later")
    single.reported_at = now
    single.pods[key] = wanted
    state.sources[API_SOURCE] = single
    state.deletions.pop(key, None)
    state.touch(key)
    state.backoff = backoff.forget(state.backoff, key)


def _delete(state: NodeState, signal: DeleteFromNode, _now: datetime) -> None:
    if not signal.name or "/" in signal.name or "/" in signal.namespace:
        raise Rejected("name: required" if not signal.name else "name: must be a name")
    if signal.grace_period_seconds is not None and signal.grace_period_seconds < 0:
        raise Rejected("gracePeriodSeconds: must be 0 or more")
    key = key_of(signal.namespace, signal.name)
    _require_free(state, key)
    if API_SOURCE in state.sources:
        state.sources[API_SOURCE].pods.pop(key, None)
    state.deletions[key] = signal
    state.touch(key)
    state.backoff = backoff.forget(state.backoff, key)


def _require_free(state: NodeState, key: str) -> None:
    """Raise Rejected if a list governs the pod."""
    lists = [name for name in state.candidates(key) if name != API_SOURCE]
    if lists:
        raise Rejected(f"pod {key} is one of the list of {lists[0]}: change it there")


# --- the node itself --------------------------------------------------------------------------------------------------


def _cordon(state: NodeState, asked: Cordon, now: datetime) -> None:
    _schedulable(state, False, asked.by, now)


def _uncordon(state: NodeState, asked: Cordon, now: datetime) -> None:
    _schedulable(state, True, asked.by, now)


def _schedulable(state: NodeState, schedulable: bool, by: str, now: datetime) -> None:
    if state.unschedulable is schedulable:
        sender = " ".join(by.split())[:_SENDER_LENGTH]
        state.unschedulable, state.cordoned_by = not schedulable, "" if schedulable else sender
        word = "NodeSchedulable" if schedulable else "NodeNotSchedulable"
        state.event(now, "Normal", word, f"Node {state.name} status is now: {word}{sender and f', by {sender}'}")


def _status(state: NodeState, signal: NodeStatus, now: datetime) -> None:
    """Take the agent's report. Boot numbers are compared only for equality: a new state directory restarts them."""
    before = {each.type: each.status for each in state.status.conditions}
    for each in signal.conditions:
        if before.get(each.type, each.status) != each.status:
            kind = "Normal" if each.status == ("True" if each.type == "Ready" else "False") else "Warning"
            state.event(now, kind, f"Node{each.type}", f"{each.type} is {each.status} now: {each.message}")  # type: ignore[arg-type]
    if signal.boot != state.status.boot:
        state.event(now, "Normal", "Starting", f"the worker of node {state.name} has started")
        if not signal.has_cluster_dns:
            state.event(now, "Warning", "MissingClusterDNS", NO_CLUSTER_DNS)
    _record_outages(state, signal)
    state.status = signal


def _record_outages(state: NodeState, signal: NodeStatus) -> None:
    """Record the beginning and the end of each outage of the server as events, unless the last status named it."""
    for outage in signal.outages[-OUTAGES_REPORTED:]:
        if outage.begun is not None and outage.ended is not None and outage not in state.status.outages:
            state.event(outage.begun, *SERVER_UNREACHABLE)
            state.event(outage.ended, *SERVER_REACHABLE)


EFFECTS: Final[Mapping[str, Effect[NodeState, Any, None]]] = effects(
    Effect(SYNC_PODS, _sync_pods),
    Effect(STATIC_PODS, _static_pods),
    Effect(RECALL_PODS, _recall),
    Effect(APPLY, _apply),
    Effect(DELETE, _delete),
    Effect(NODE_STATUS, _status),
    Effect(CORDON, _cordon),
    Effect(UNCORDON, _uncordon),
)
"""The effect of each signal and update; a signal and an update of one name share it. `renew` concerns only the run."""
