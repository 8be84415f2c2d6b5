"""Updates of a workload, its nodes' reports and its decisions, all folded into the workload's state."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter

from syncpod.fleet import revisions
from syncpod.fleet.members import leaving_order
from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.placement import NAME_TAKEN, Placement, place, with_pod
from syncpod.fleet.rollout import WorkloadDecision
from syncpod.fleet.workload_documents import (
    MOST_REPLICAS,
    RESTARTED_AT,
    Workload,
    admit_workload,
    template_of,
)
from syncpod.fleet.workload_kinds import kind_of
from syncpod.fleet.workload_pods import (
    next_number,
    number_of,
    owner_of,
    pod_of,
    revision_of,
)
from syncpod.messages.command_table import Nothing
from syncpod.messages.fleet import PlacedPod, PodReport, PodsChanged
from syncpod.messages.fleet_commands import APPLY, DELETE, PAUSE, ROLLOUT_RESTART, UNDO
from syncpod.messages.node import PodKey
from syncpod.messages.signed import Received
from syncpod.messages.workload import Pause, RolloutRestart, Surveyed, Undo, Undone
from syncpod.pod import Pod, pod_to_wire
from syncpod.pod.wire import Time, to_wire
from workflows.effects import Effect, effects
from workflows.fleet.workload_state import KnownPod, WorkloadState
from workflows.rejections import Rejected

_PAUSED: Final = "it is paused, so nothing would be rolled out: resume it first with `syncpod fleet rollout resume`"
ADOPTED_LIMIT: Final = 1000
"""The most pods that a workload has on a node from which it adopts one, counted with those that are leaving: as many as
a fleet places on one node."""
PODS_LIMIT: Final = 2 * MOST_REPLICAS
"""The most pods that a workload creates or adopts: so many fit into its snapshot, with their reports."""
HEARD_NODES: Final = 2000
"""The most nodes of which a workload knows what they said last."""
_DELETING: Final = "it is being deleted; apply it again when it is gone"
_ROLLED_BACK: Final = (
    "its newest template was rolled back: take the last good one for it first, with `syncpod fleet rollout undo`"
)
_TIME: Final[TypeAdapter[datetime]] = TypeAdapter(Time)
PLACED_AT_ONCE: Final = 25
"""The most pods that nodes are chosen for in one workflow task, and that one node is sent in one request."""


def apply(state: WorkloadState, workflow_id: str, document: Any, now: datetime) -> tuple[str, ...]:
    """Adopt a document; return warnings for its author. Raises PodInvalid or Rejected, and then changes nothing."""
    if state.deleting:
        raise Rejected(_DELETING)
    workload, warnings = admit_workload(document)
    if owner_of(workload) != workflow_id:
        raise Rejected(f"must be {workflow_id}, is {owner_of(workload)}")
    _require_same(state, workload)
    template, wire = template_of(workload), to_wire(workload)
    revision = revision_of(template)
    if wire != state.document:
        state.document, state.applied_at = wire, state.applied_at or now
        state.templates[revision] = to_wire(template)
        _note_revision(state, workload, revision, now)
        state.event(now, "Normal", "Applied", f"template {revision} is wanted")
    return tuple(str(warning) for warning in warnings)


def _note_revision(state: WorkloadState, workload: Workload, template: str, now: datetime) -> None:
    """Make a template the newest revision, and forget the oldest ones."""
    if not state.has_template:
        return
    cause = workload.metadata.annotations.get(revisions.CHANGE_CAUSE, "")
    history = revisions.applied(state.history, template, cause, now)
    limit = (state.document or {})["spec"].get("revisionHistoryLimit")
    sizes = {named: len(json.dumps(each)) for named, each in state.templates.items()}
    state.history = revisions.shortened(
        history, revisions.DEFAULT_LIMIT if limit is None else limit, sizes, {state.rollout.good, state.rollout.target}
    )


def undo(state: WorkloadState, workflow_id: str, asked: Undo, now: datetime) -> Undone:
    """Apply the template of an earlier revision again. Raises Rejected, and then changes nothing.

    Mirrors pkg/polymorphichelpers/rollback.go of kubectl, v1.36.
    """
    if not state.has_template:
        raise Rejected("it has no revisions")
    if state.deleting:
        raise Rejected(_DELETING)
    if state.is_paused:
        raise Rejected(_PAUSED)
    try:
        found = revisions.chosen(state.history, asked.to_revision, asked.template)
    except revisions.NoRevision as none:
        raise Rejected(str(none)) from None
    if found.template == asked_for(state):
        return Undone(revision=found.number, template=found.template, skipped=True)
    document = dict(state.document or {})
    meta = dict(document.get("metadata") or {})
    annotations = {**(meta.get("annotations") or {}), revisions.CHANGE_CAUSE: found.cause}
    meta["annotations"] = {name: text for name, text in annotations.items() if text or name != revisions.CHANGE_CAUSE}
    spec = {**document["spec"], "template": state.templates[found.template]}
    apply(state, workflow_id, {**document, "metadata": meta, "spec": spec}, now)
    text = f"template {found.template} of revision {found.number} is wanted again"
    state.event(now, "Normal", f"{document['kind']}Rollback", text)
    return Undone(revision=found.number, template=found.template)


def restart(state: WorkloadState, workflow_id: str, asked: RolloutRestart, now: datetime) -> None:
    """Have all pods replaced, by a template that differs in an annotation. Raises Rejected, and then changes nothing.

    Mirrors pkg/polymorphichelpers/objectrestarter.go of kubectl, v1.36.
    """
    if not state.has_template:
        raise Rejected("it has no template: delete the pod, and apply it again")
    if state.deleting:
        raise Rejected(_DELETING)
    if state.is_paused:
        raise Rejected(_PAUSED)
    if state.rollout.rolled_back and state.rollout.asked == asked_for(state):
        raise Rejected(_ROLLED_BACK)
    try:
        _TIME.validate_python(asked.at)
    except ValueError:
        raise Rejected(f"at: must be an RFC 3339 time such as 2026-01-31T12:00:00Z, is {asked.at[:64]!r}") from None
    document: dict[str, Any] = dict(state.document or {})
    template = dict(document["spec"]["template"])
    meta = dict(template.get("metadata") or {})
    template["metadata"] = {**meta, "annotations": {**(meta.get("annotations") or {}), RESTARTED_AT: asked.at}}
    apply(state, workflow_id, {**document, "spec": {**document["spec"], "template": template}}, now)


def pause(state: WorkloadState, asked: Pause, now: datetime) -> None:
    """Pause the workload's rollouts, or resume them. Raises Rejected, and then changes nothing."""
    if state.traits is None or not state.traits.is_pausable:
        raise Rejected("only the rollouts of a Deployment can be paused")
    if state.deleting:
        raise Rejected("it is being deleted")
    if asked.paused == state.is_paused:
        return
    state.paused = asked.paused
    if not asked.paused and state.document is not None and state.document["spec"].get("paused"):
        state.document = {**state.document, "spec": {**state.document["spec"], "paused": False}}
    word, text = ("Paused", "no other template is rolled out") if asked.paused else ("Resumed", "rollouts go on")
    state.event(now, "Normal", f"Deployment{word}", text)


def _require_same(state: WorkloadState, workload: Workload) -> None:
    """Refuse changes of fields that cannot change. Raises Rejected."""
    before = state.workload()
    if before is not None and (why := kind_of(workload).fixed(before, workload, state.situation())):
        raise Rejected(why)


def delete(state: WorkloadState, now: datetime) -> None:
    """Note that the workload, with all its pods, is being deleted."""
    if not state.deleting:
        state.deleting = True
        state.event(now, "Normal", "Deleting", f"{len(state.pods)} pods are being removed")


def is_over(state: WorkloadState) -> bool:
    """Say whether the workload is deleted, and its last pod is gone.

    A node that has not said yet which pods it has may have some, and they would run on without their workload.
    """
    is_asked = (state.is_known and not state.missed) or state.document is None
    return state.deleting and is_asked and not state.pods


def is_news(state: WorkloadState, said: Received) -> bool:
    """Say whether a message of a node is newer than all before it; if so, note that it has come."""
    node = str(said.value.get("node", "")) if isinstance(said.value, dict) else ""
    if said.number <= max(state.heard_from, state.heard.get(node, 0)):
        return False
    heard = {**state.heard, node: said.number}
    if len(heard) > HEARD_NODES:
        oldest = min(heard, key=lambda each: (heard[each], each))
        state.heard_from = max(state.heard_from, heard.pop(oldest))
    state.heard = heard
    return True


def pods_reported(state: WorkloadState, news: PodsChanged, now: datetime) -> None:
    """Take a node's report of the workload's pods.

    Until a node that is back has reported how its pods are, those that the workload does not know stay unknown. If they
    were adopted earlier they would count as lost, and be removed first, however well they run. The node's first report
    has everything again.
    """
    is_heard = state.is_known and news.presence in ("Ready", "NotReady")
    for said in news.pods:
        if (name := state.on_node(said.name, news.node)) is not None:
            _pod_reported(state.pods[name], said, news, now)
        elif is_heard and said.state != "ending" and _adopt(state, said, news.node, said.revision, now):
            _pod_reported(state.pods[state.on_node(said.name, news.node) or ""], said, news, now)
    for key in news.gone:
        if (name := state.on_node(key.name, news.node)) is not None:
            if not state.pods[name].leaving:
                state.event(now, "Warning", "Gone", f"{key.name} is no longer placed on {news.node}")
            del state.pods[name]
    _part_namesakes(state, now)


def _part_namesakes(state: WorkloadState, now: datetime) -> None:
    """Withdraw all but the most valuable of the pods that have one name, on different nodes.

    A new pod got the name of one that the workload did not know: its node was away when the workload was applied to a
    fleet that had lost its database, or was removed from the fleet and is back. The copies of a single Pod always have
    one name, and its own decisions choose between them. A pod whose node is away is not judged until the node is back.
    """
    if state.is_bare or not any(name != state.pod_name(name) for name in state.pods):
        return
    stay: dict[str, str] = {}
    for member in reversed(leaving_order(each for each in state.members() if not each.leaving)):
        if member.presence == "Unknown":
            continue
        if (node := stay.setdefault(member.pod, member.node)) != member.node:
            pod, why = state.pods[member.name], f"{member.called} is removed: {node} has a pod of the same name"
            _leave(pod, why)
            state.event(now, "Normal", "Withdrawn", why)


def surveyed(state: WorkloadState, found: Surveyed, now: datetime, heard: Iterable[PodsChanged] = ()) -> None:
    """Adopt the pods of this workload that nodes already have. There are some if the fleet's database was lost.

    A node that does not answer holds up no other. It is asked again; if its list could be read, the pods in it are
    Unknown until then, so that no other is made in their place.

    `heard` has the reports of nodes since the survey began, oldest first. A report may be newer than its node's answer
    to the survey, for instance that a pod is gone; so it counts again, after the survey. If it is older, the survey's
    news are newer, but then the node's next report is yet to come.
    """
    before = state.missed if state.is_known else None
    for each in found.own:
        if before is None or (each.news.node in before and each.news.node not in found.missed):
            for said in each.news.pods:
                _adopt(state, said, each.news.node, each.revisions.get(said.name, ""), now)
            pods_reported(state, each.news, now)
    is_first, state.is_known = before is None, True
    for news in heard:
        if is_first or news.node in (before or ()):
            pods_reported(state, news, now)
    state.missed = tuple(name for name in found.missed if before is None or name in before)
    if state.missed and before is None:
        text = f"without an answer from {', '.join(state.missed)}, which may have pods of it"
        state.event(now, "Warning", "MissedNodes", text)


def _adopt(state: WorkloadState, said: PlacedPod, node: str, revision: str, now: datetime) -> bool:
    """Adopt a pod that a node has, but the workload does not know; return whether it belongs to the workload.

    The pod counted as gone: its node was removed from the fleet and is back, or the fleet's database was restored. If
    the workload then has too many pods, one is removed by the usual rules.
    """
    workload = state.workload()
    number = number_of(workload, said.name) if workload is not None else None
    if number is None or state.on_node(said.name, node):
        return False
    if len(state.pods) >= PODS_LIMIT or sum(pod.node == node for pod in state.pods.values()) >= ADOPTED_LIMIT:
        text = f"a workload has at most {ADOPTED_LIMIT} pods of one node, and {PODS_LIMIT} in all: {node} has more"
        state.event(now, "Warning", "NotAdopted", text)
        return False
    number = number or next_number(state.numbered, {pod.number for pod in state.pods.values()}.__contains__)
    leaving = said.state == "ending"
    pod = KnownPod(number=number, revision=revision, created=now, node=node)
    pod.leaving, pod.is_told, pod.why = leaving, leaving, said.why if leaving else ""
    state.pods[state.new_name(f"{_name(state)}-{number}", node)] = pod
    state.numbered = max(state.numbered, number)
    state.event(now, "Warning", "Recalled", f"{said.name} is already on {node}")
    return True


def _pod_reported(pod: KnownPod, said: PlacedPod, news: PodsChanged, now: datetime) -> None:
    if said.state == "ending" and not pod.leaving:
        # Somebody else has ended the pod. It counts as leaving, so another one is made.
        pod.leaving, pod.is_told, pod.why = True, True, said.why or f"{said.name} was ended on {news.node}"
    pod.recalled = said.recalled or said.is_orphan
    pod.is_proof_sent = pod.is_proof_sent and pod.recalled
    if said.report is not None:
        pod.report = _kept(said.report, pod.leaving)
        pod.ready_at = (pod.ready_at or now) if said.report.ready else None
    pod.refused, pod.trouble = said.state == "refused", said.why if said.state == "refused" else ""
    pod.moving = news.draining
    pod.presence = "Unknown" if news.presence == "Joining" else news.presence
    pod.since = (pod.since or now) if pod.presence == "Unknown" else None


def _leave(pod: KnownPod, why: str) -> None:
    """Mark a pod for removal."""
    pod.leaving, pod.why = True, why
    pod.report = _kept(pod.report, leaving=True) if pod.report is not None else None


def _kept(report: PodReport, leaving: bool) -> PodReport:
    """Return what is kept of a pod's report. All that matters of a pod that is leaving is whether it has ended."""
    brief = report.brief()
    return PodReport(phase=brief.phase, status=brief.status) if leaving else brief


def decision(state: WorkloadState, nodes: Sequence[NodeOffer] | None, now: datetime) -> WorkloadDecision:
    """Decide what is next. `nodes` are those of the last survey; None = there was none."""
    workload = state.workload()
    if workload is None or not state.is_known:
        return WorkloadDecision(state.rollout, says="the nodes have not been asked yet")
    return kind_of(workload).decide(workload, state.situation(nodes), now)


def is_outdated(nodes: Sequence[NodeOffer], news: PodsChanged) -> bool:
    """Say whether a survey that has found these nodes is outdated, by what a node reports now."""
    found = [node for node in nodes if node.name == news.node]
    if not found:
        return news.presence != "Joining"  # until it has joined, no survey finds it
    return found[0].presence != news.presence


def with_cordon(nodes: Sequence[NodeOffer], news: PodsChanged) -> tuple[NodeOffer, ...]:
    """Return the nodes of a survey as they are now that one of them says whether it takes new pods."""
    return tuple(
        replace(node, unschedulable=news.unschedulable, doubled=news.doubled) if node.name == news.node else node
        for node in nodes
    )


def asked_for(state: WorkloadState) -> str:
    """Return the revision of the document; "" if there is none."""
    workload = state.workload()
    return revision_of(template_of(workload)) if workload is not None else ""


def carry_out(state: WorkloadState, decided: WorkloadDecision, now: datetime) -> None:
    """Fold a decision into the state: pods to create, and pods to remove."""
    state.rollout = decided.state
    asked = asked_for(state) if state.is_bare else ""
    for withdrawal in decided.withdraw:
        pod = state.pods[withdrawal.name]
        _leave(pod, withdrawal.why)
        state.event(now, "Normal", "Withdrawn", withdrawal.why)
    taken, room = {pod.number for pod in state.pods.values()}, max(0, PODS_LIMIT - len(state.pods))
    for creation in decided.create[:room]:
        state.numbered = next_number(state.numbered, taken.__contains__)
        taken.add(state.numbered)
        name = f"{_name(state)}-{state.numbered}"
        state.pods[name] = KnownPod(
            number=state.numbered,
            revision=asked or creation.revision,
            created=now,
            bound=creation.node,
            replaces=creation.replaces,
        )
    if decided.rolled_back:
        failed = decided.failed
        state.history = revisions.given_up(
            state.history,
            decided.state.asked,
            decided.rolled_back,
            state.pod_name(failed) if failed else "",
            state.pods[failed].node if failed else "",
        )
        state.event(now, "Warning", "RolledBack", decided.rolled_back)
    if decided.complete and not asked and revisions.is_under_way(state.history, decided.complete):
        state.history = revisions.became_good(state.history, decided.complete, now)
        state.event(now, "Normal", "RolledOut", f"template {decided.complete} is good")
    drop_unplaced(state)


def withdraw_all(state: WorkloadState) -> None:
    """Mark every pod for removal, since the workload is being deleted."""
    for pod in state.pods.values():
        if not pod.leaving:
            _leave(pod, "the workload is being deleted")
    drop_unplaced(state)


def drop_unplaced(state: WorkloadState) -> None:
    """Forget pods that are to be removed, and that no node was ever asked to run."""
    for name in [name for name, pod in state.pods.items() if pod.leaving and not pod.node]:
        del state.pods[name]


def unplaced(state: WorkloadState, tried: Collection[str] = ()) -> list[str]:
    """Return the pods that need a node now, oldest first: as many as are tried together. `tried` are left out."""
    names = [name for name, pod in state.pods.items() if not pod.node and not pod.leaving and name not in tried]
    return sorted(names, key=lambda name: state.pods[name].number)[:PLACED_AT_ONCE]


def like(state: WorkloadState, name: str) -> set[str]:
    """Return a pod that fits no node, with all others that need a node and fit none for the same reasons."""
    one = state.pods[name]
    return {
        other
        for other, pod in state.pods.items()
        if other == name or (not pod.node and not one.bound and not pod.bound and pod.revision == one.revision)
    }


def may_be_placed(state: WorkloadState, name: str, silent: Collection[str]) -> bool:
    """Say whether a node can be chosen for a pod now; `silent` are nodes that are still being asked to run others."""
    pod = state.pods.get(name)
    return pod is not None and not pod.leaving and not pod.node and pod.bound not in silent


def pod_to_run(state: WorkloadState, name: str) -> Pod:
    """Return a pod of the workload, as its node must run it. Raises Rejected without a document."""
    workload, pod = state.workload(), state.pods[name]
    if workload is None:
        raise Rejected("nothing has been applied")
    template = state.template(pod.revision) if state.has_template else template_of(workload)
    return pod_of(workload, template, pod.number)


def outdated(state: WorkloadState) -> list[str]:
    """Return the copies of a single Pod whose nodes have an earlier document, and must be sent the newest."""
    if not state.is_bare:
        return []
    asked = asked_for(state)
    return [name for name, pod in sorted(state.pods.items()) if pod.node and not pod.leaving and pod.revision != asked]


def to_prove(state: WorkloadState) -> dict[str, list[str]]:
    """Return by node some of the adopted pods that only their node claims, and that the workload can make itself.

    Until the node's workflow knows that they are as the workload would make them, the node gets no Secret for them.
    """
    found: dict[str, list[str]] = {}
    for name, pod in sorted(state.pods.items()):
        is_due = pod.recalled and not pod.is_proof_sent
        if is_due and pod.node and not pod.leaving and pod.revision in state.templates:
            found.setdefault(pod.node, []).append(name)
    return {node: names[:PLACED_AT_ONCE] for node, names in found.items()}


def proof_sent(state: WorkloadState, names: Iterable[str]) -> None:
    """Note that the workflow of these pods' node now knows how the workload would make them.

    The next report of a pod shows whether the pod matches. If not, only its node knows its document, and it gets no
    Secret until another template is rolled out: asking again would change nothing.
    """
    for name in names:
        if name in state.pods:
            state.pods[name].is_proof_sent = True


def samples(state: WorkloadState, names: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """Return one of these pods for each template. A survey needs them to ask nodes for the right details."""
    by_revision = {state.pods[name].revision: name for name in names}
    return tuple(pod_to_wire(pod_to_run(state, name)) for _, name in sorted(by_revision.items()))


def placements(
    state: WorkloadState, names: Sequence[str], nodes: Sequence[NodeOffer], owner: str, now: datetime
) -> dict[str, tuple[Pod, Placement]]:
    """Choose a node for each of these pods. Each choice takes those before it into account.

    A pod that fits nowhere since others have its name gets another number, unless it is a single Pod.
    """
    offers = {node.name: node for node in nodes}
    found = {}
    for first in names:
        name, (pod, placement) = first, _placement(state, first, offers, owner)
        if not placement.node and not state.is_bare and any(NAME_TAKEN in fit.reasons for fit in placement.nodes):
            name = _renumbered(state, first, nodes, now)
            pod, placement = _placement(state, name, offers, owner)
        if placement.node:
            offers[placement.node] = with_pod(offers[placement.node], pod, owner)
        found[name] = (pod, placement)
    return found


def _placement(state: WorkloadState, name: str, offers: Mapping[str, NodeOffer], owner: str) -> tuple[Pod, Placement]:
    pod, bound = pod_to_run(state, name), state.pods[name].bound
    return pod, place(pod, [node for node in offers.values() if bound in ("", node.name)], owner=owner)


def _renumbered(state: WorkloadState, name: str, nodes: Sequence[NodeOffer], now: datetime) -> str:
    """Give a pod that is on no node another number, by which no pod on any node is called; return its new name."""
    workload, called = state.workload(), {name for node in nodes for name in node.namesakes}
    numbers = {number_of(workload, each) for each in called} if workload is not None else set()
    numbers |= {pod.number for pod in state.pods.values()}
    state.numbered = next_number(state.numbered, numbers.__contains__)
    new = f"{_name(state)}-{state.numbered}"
    state.pods[new] = state.pods.pop(name).model_copy(update={"number": state.numbered})
    state.event(now, "Normal", "Renamed", f"{name} is called {new} from now on: another pod has its name")
    return new


def to_withdraw(state: WorkloadState, asked: Collection[str]) -> dict[str, tuple[PodKey, ...]]:
    """Return by node the pods that must be withdrawn, and whose node does not know that yet.

    `asked` are pods that a node is being asked to run right now. They are left out: if the withdrawal overtook that
    request, the node would ignore it.
    """
    found: dict[str, tuple[PodKey, ...]] = {}
    for name, pod in sorted(state.pods.items()):
        if pod.leaving and pod.node and not pod.is_told and name not in asked:
            key = PodKey(namespace=_namespace(state), name=state.pod_name(name))
            found[pod.node] = (*found.get(pod.node, ()), key)
    return found


def _name(state: WorkloadState) -> str:
    return str((state.document or {}).get("metadata", {}).get("name", ""))


def _namespace(state: WorkloadState) -> str:
    return str((state.document or {}).get("metadata", {}).get("namespace") or "default")


def updates_of(owner: str) -> Mapping[str, Effect[WorkloadState, Any, dict[str, Any]]]:
    """Return the effect and the answer of each update of the workload with this workflow id."""

    def do_apply(state: WorkloadState, document: Any, now: datetime) -> dict[str, Any]:
        return {"warnings": list(apply(state, owner, document, now))}

    def do_undo(state: WorkloadState, asked: Undo, now: datetime) -> dict[str, Any]:
        return undo(state, owner, asked, now).model_dump(mode="json", by_alias=True)

    def do_restart(state: WorkloadState, asked: RolloutRestart, now: datetime) -> dict[str, Any]:
        restart(state, owner, asked, now)
        return {}

    def do_pause(state: WorkloadState, asked: Pause, now: datetime) -> dict[str, Any]:
        pause(state, asked, now)
        return {}

    def do_delete(state: WorkloadState, _: Nothing, now: datetime) -> dict[str, Any]:
        delete(state, now)
        return {"pods": len(state.pods)}

    return effects(
        Effect(APPLY, do_apply),
        Effect(UNDO, do_undo),
        Effect(ROLLOUT_RESTART, do_restart),
        Effect(PAUSE, do_pause),
        Effect(DELETE, do_delete),
    )
