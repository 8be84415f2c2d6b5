"""Changes of a workload, what its nodes say of its pods, and what is decided, folded into its state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from syncpod.fleet.daemons import Standing, decide_daemons, standing
from syncpod.fleet.lone_pods import decide_lone, placement_changed
from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.placement import Placement, place, with_pod
from syncpod.fleet.rollout import Decision, decide
from syncpod.fleet.workload_documents import DaemonSet, Deployment, Workload, admit_workload, lost_rule, template_of
from syncpod.fleet.workload_pods import (
    daemon_wish_of,
    grace_of,
    number_of,
    owner_of,
    pod_of,
    revision_of,
    wish_of,
)
from syncpod.messages.fleet import PlacedPod, PodsChanged
from syncpod.messages.node import PodKey
from syncpod.messages.workload import OwnPods
from syncpod.pod import Pod, pod_to_wire
from syncpod.pod.wire import to_wire
from workflows.fleet.workload_state import PodState, WorkloadState
from workflows.rejections import Rejected

PLACED_AT_ONCE: Final = 25
"""Pods for which nodes are chosen in one workflow task."""


def apply(state: WorkloadState, workflow_id: str, document: Any, now: datetime) -> tuple[str, ...]:
    """Take a document; return warnings for its author. Raises PodInvalid or Rejected, and has changed nothing then."""
    if state.deleting:
        raise Rejected("it is being deleted; apply it again when it is gone")
    workload, warnings = admit_workload(document)
    if owner_of(workload) != workflow_id:
        raise Rejected(f"is {owner_of(workload)}, and this is {workflow_id}")
    _require_same(state, workload)
    template, wire = template_of(workload), to_wire(workload)
    revision = revision_of(template)
    if wire != state.document:
        state.document, state.applied_at = wire, state.applied_at or now
        state.templates[revision] = to_wire(template)
        state.event(now, "Normal", "Applied", f"template {revision} is asked for")
    return tuple(str(warning) for warning in warnings)


def _require_same(state: WorkloadState, workload: Workload) -> None:
    """Refuse changes of what cannot change. Raises Rejected."""
    before = state.workload()
    if isinstance(workload, Pod):
        is_placed = any(pod.node for pod in state.pods.values())
        if isinstance(before, Pod) and is_placed and (path := placement_changed(before, workload)):
            raise Rejected(f"{path}: must not be changed once a node is chosen; delete the pod, and apply it again")
    elif before is not None and not isinstance(before, Pod) and before.spec.selector != workload.spec.selector:
        raise Rejected("spec.selector: must not be changed; delete the workload, and apply it again")


def delete(state: WorkloadState, now: datetime) -> None:
    """Have all pods go, and then the workload."""
    if not state.deleting:
        state.deleting = True
        state.event(now, "Normal", "Deleting", f"{len(state.pods)} pods go")


def heard(state: WorkloadState, news: PodsChanged, now: datetime) -> None:
    """Take what a node says of the workload's pods."""
    for said in news.pods:
        if (name := state.on_node(said.name, news.node)) is not None:
            _heard_of(state.pods[name], said, news, now)
    for key in news.gone:
        if (name := state.on_node(key.name, news.node)) is not None:
            if not state.pods[name].leaving:
                state.event(now, "Warning", "Gone", f"{key.name} is no longer placed on {news.node}")
            del state.pods[name]


def known(state: WorkloadState, own: Sequence[OwnPods], now: datetime) -> None:
    """Take over the pods of this workload that nodes have already: of a fleet that forgot the workload itself."""
    state.is_known = True
    workload = state.workload()
    for each in own:
        for said in each.news.pods:
            number = number_of(workload, said.name) if workload is not None else None
            if number is None or state.on_node(said.name, each.news.node) or said.name in state.pods:
                continue
            number = number or state.numbered + 1
            revision, leaving = each.revisions.get(said.name, ""), said.state == "ending"
            pod = PodState(number=number, revision=revision, created=now, node=each.news.node)
            pod.leaving, pod.is_told, pod.why = leaving, leaving, said.why if leaving else ""
            state.pods[f"{_name(state)}-{number}"] = pod
            state.numbered = max(state.numbered, number)
            state.event(now, "Warning", "Recalled", f"{said.name} is on {each.news.node} already")
        heard(state, each.news, now)


def _heard_of(pod: PodState, said: PlacedPod, news: PodsChanged, now: datetime) -> None:
    if said.state == "ending" and not pod.leaving:
        # Somebody else has ended it, as a drain does: another takes its place.
        pod.leaving, pod.is_told, pod.why = True, True, said.why or f"{said.name} was ended on {news.node}"
    if said.report is not None:
        pod.report = said.report
        pod.ready_at = (pod.ready_at or now) if said.report.ready else None
    pod.refused, pod.trouble = said.state == "refused", said.why if said.state == "refused" else ""
    pod.moving = news.draining
    pod.presence = "Unknown" if news.presence == "Joining" else news.presence
    pod.since = (pod.since or now) if pod.presence == "Unknown" else None


def decision(state: WorkloadState, nodes: Sequence[NodeOffer] | None, now: datetime) -> Decision:
    """Decide what is next; `nodes` are those of the last survey, which only a DaemonSet goes by."""
    workload = state.workload()
    if workload is None or not state.is_known:
        return Decision(state.rollout, says="the nodes are yet to be asked")
    if isinstance(workload, Deployment):
        return decide(wish_of(workload), state.members(), state.rollout, now)
    if isinstance(workload, Pod):
        grace = grace_of(template_of(workload))
        return decide_lone(lost_rule(workload), grace, state.members(), state.rollout, now)
    if nodes is None:
        return Decision(state.rollout, says="the nodes are yet to be looked at")
    standings = _standings(workload, nodes)
    return decide_daemons(daemon_wish_of(workload), standings, state.members(), state.rollout, now)


def _standings(workload: DaemonSet, nodes: Sequence[NodeOffer]) -> Mapping[str, Standing]:
    pod = pod_of(workload, workload.spec.template, 0)
    return {node.name: standing(pod, node) for node in nodes}


def asked_for(state: WorkloadState) -> str:
    """Return the revision of the document; "" if there is none."""
    workload = state.workload()
    return revision_of(template_of(workload)) if workload is not None else ""


def carry_out(state: WorkloadState, decided: Decision, now: datetime) -> None:
    """Fold a decision into the state: pods that are to be, and pods that are to go."""
    state.rollout = decided.state
    asked = asked_for(state) if state.is_lone else ""
    for withdrawal in decided.withdraw:
        pod = state.pods[withdrawal.name]
        pod.leaving, pod.why = True, withdrawal.why
        state.event(now, "Normal", "Withdrawn", withdrawal.why)
    for creation in decided.create:
        state.numbered += 1
        name = f"{_name(state)}-{state.numbered}"
        state.pods[name] = PodState(
            number=state.numbered,
            revision=asked or creation.revision,
            created=now,
            bound=creation.node,
            replaces=creation.replaces,
        )
    if decided.rolled_back:
        state.event(now, "Warning", "RolledBack", decided.rolled_back)
    if decided.became_good and not asked:
        state.event(now, "Normal", "RolledOut", f"template {decided.became_good} is good")
    drop_unplaced(state)


def withdraw_all(state: WorkloadState) -> None:
    """Have every pod go, since the workload is being deleted."""
    for pod in state.pods.values():
        if not pod.leaving:
            pod.leaving, pod.why = True, "the workload is deleted"
    drop_unplaced(state)


def drop_unplaced(state: WorkloadState) -> None:
    """Forget pods that are to go, and that no node was ever asked to run."""
    for name in [name for name, pod in state.pods.items() if pod.leaving and not pod.node]:
        del state.pods[name]


def unplaced(state: WorkloadState) -> list[str]:
    """Return the pods for which nodes are to be chosen now, oldest first."""
    names = [name for name, pod in state.pods.items() if not pod.node and not pod.leaving]
    return sorted(names, key=lambda name: state.pods[name].number)[:PLACED_AT_ONCE]


def made(state: WorkloadState, name: str) -> Pod:
    """Return a pod of the workload, as its node has to run it. The workload has a document."""
    workload, pod = state.workload(), state.pods[name]
    if workload is None:
        raise Rejected("nothing has been applied")
    if isinstance(workload, Pod):
        return workload
    return pod_of(workload, state.template(pod.revision), pod.number)


def outdated(state: WorkloadState) -> list[str]:
    """Return the pods whose nodes have an earlier document of a Pod by itself, and are to be given the newest."""
    if not state.is_lone:
        return []
    asked = asked_for(state)
    return [name for name, pod in sorted(state.pods.items()) if pod.node and not pod.leaving and pod.revision != asked]


def samples(state: WorkloadState) -> tuple[dict[str, Any], ...]:
    """Return a pod of each template that is to be placed, for a survey."""
    by_revision = {state.pods[name].revision: name for name in unplaced(state)}
    return tuple(pod_to_wire(made(state, name)) for _, name in sorted(by_revision.items()))


def placements(
    state: WorkloadState, names: Sequence[str], nodes: Sequence[NodeOffer], owner: str
) -> dict[str, tuple[Pod, Placement]]:
    """Choose a node for each of these pods, each as if those before it were there already."""
    offers = {node.name: node for node in nodes}
    found = {}
    for name in names:
        pod = made(state, name)
        if bound := state.pods[name].bound:
            only = [offers[bound]] if bound in offers else []
            placement = place(pod, only, owner=owner)
        else:
            placement = place(pod, offers.values(), owner=owner)
        if placement.node:
            offers[placement.node] = with_pod(offers[placement.node], pod, owner)
        found[name] = (pod, placement)
    return found


def to_be_told(state: WorkloadState, asked: Collection[str]) -> dict[str, tuple[PodKey, ...]]:
    """Return by node the pods that are to go, and of which the node does not know.

    `asked`: pods that a node is just asked to run. A withdrawal that overtook that would be forgotten there.
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
