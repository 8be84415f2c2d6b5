"""Folds reports about a workload's pods into its state: nodes' messages, and the results of surveys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from syncpod.fleet.members import leaving_order
from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.workload_pods import number_of
from syncpod.messages.fleet import PlacedPod, PodsChanged
from syncpod.messages.signed import Received
from syncpod.messages.workload import Surveyed
from workflows.fleet.workload_state import PODS_LIMIT, KnownPod, WorkloadState

ADOPTED_LIMIT: Final = 1000
"""A workload that has this many pods on a node, leaving ones included, adopts no more from it. A fleet places no more
pods on one node."""
REPORTED_NODES: Final = 2000
"""For how many nodes, at most, a workload keeps the number of the last message."""


def is_news(state: WorkloadState, said: Received) -> bool:
    """Say whether a message of a node is newer than all before it; if so, record its number."""
    node = str(said.value.get("node", "")) if isinstance(said.value, dict) else ""
    if said.number <= max(state.heard_from, state.heard.get(node, 0)):
        return False
    numbers = {**state.heard, node: said.number}
    if len(numbers) > REPORTED_NODES:
        oldest = min(numbers, key=lambda each: (numbers[each], each))
        state.heard_from = max(state.heard_from, numbers.pop(oldest))
    state.heard = numbers
    return True


def pods_reported(state: WorkloadState, news: PodsChanged, now: datetime) -> None:
    """Take a node's report of the workload's pods.

    Pods that the workload does not know are adopted only if their node is Ready or NotReady. Pods that were adopted
    from an Unknown node would count as lost, and be removed first although they run. The first report of a node that is
    back lists all its pods again.
    """
    is_present = state.is_known and news.presence in ("Ready", "NotReady")
    for said in news.pods:
        if (name := state.on_node(said.name, news.node)) is not None:
            _pod_reported(state.pods[name], said, news, now)
        elif is_present and said.state != "ending" and _adopt(state, said, news.node, said.revision, now):
            _pod_reported(state.pods[state.on_node(said.name, news.node) or ""], said, news, now)
    for key in news.gone:
        if (name := state.on_node(key.name, news.node)) is not None:
            if not state.pods[name].leaving:
                state.event(now, "Warning", "Gone", f"{key.name} is no longer placed on {news.node}")
            del state.pods[name]
    if news.removed:
        give_up_unplaced(state, lambda node: node == news.node, now)
    _part_namesakes(state, now)


def give_up_unplaced(state: WorkloadState, has_left: Callable[[str], bool], now: datetime) -> None:
    """Mark pods for removal if they wait for a node that has left the fleet: no placement can find that node any more.

    Mirrors pkg/controller/daemon/daemon_controller.go, v1.36, getUnscheduledPodsWithoutNode.
    """
    for name, pod in state.pods.items():
        if pod.bound and not pod.node and not pod.leaving and has_left(pod.bound):
            why = f"{state.pod_name(name)} is removed: node {pod.bound} is not in the fleet any more"
            pod.leave(why)
            state.event(now, "Normal", "Withdrawn", why)


def _part_namesakes(state: WorkloadState, now: datetime) -> None:
    """If pods on different nodes have the same name, withdraw all of them but the most valuable one.

    This happens if a new pod got the name of a pod that the workload had no record of: the earlier pod's node was away
    when the workload was applied to a fleet that had lost its database, or was removed from the fleet and is back. The
    copies of a single Pod always have one name; the Pod's own decisions choose between its copies. A pod whose node is
    away is not judged until the node is back.
    """
    if state.names.is_shared or not any(name != state.pod_name(name) for name in state.pods):
        return
    stay: dict[str, str] = {}
    for member in reversed(leaving_order(each for each in state.members() if not each.leaving)):
        if member.presence == "Unknown":
            continue
        if (node := stay.setdefault(member.pod, member.node)) != member.node:
            pod, why = state.pods[member.name], f"{member.called} is removed: {node} has a pod of the same name"
            pod.leave(why)
            state.event(now, "Normal", "Withdrawn", why)


def surveyed(state: WorkloadState, found: Surveyed, now: datetime, reports: Iterable[PodsChanged] = ()) -> None:
    """Adopt the pods of this workload that nodes already have. There are some if the fleet's database was lost.

    A node that does not answer delays no other, and is surveyed again. If its list could be read, the pods in it are
    Unknown until then, so that no other pods are made in their place.

    `reports` are the nodes' reports since the survey began, oldest first. A report may be newer than its node's answer
    to the survey: a pod may be gone since. So each report is folded in again after the survey. If a report is older
    than the answer, the node's next report corrects that.
    """
    before = state.missed if state.is_known else None
    for each in found.own:
        if before is None or (each.news.node in before and each.news.node not in found.missed):
            for said in each.news.pods:
                _adopt(state, said, each.news.node, each.revisions.get(said.name, ""), now)
            pods_reported(state, each.news, now)
    is_first, state.is_known = before is None, True
    for news in reports:
        if is_first or news.node in (before or ()):
            pods_reported(state, news, now)
    state.missed = tuple(name for name in found.missed if before is None or name in before)
    if state.missed and before is None:
        text = f"without an answer from {', '.join(state.missed)}, which may have its pods"
        state.event(now, "Warning", "MissedNodes", text)


def _adopt(state: WorkloadState, said: PlacedPod, node: str, revision: str, now: datetime) -> bool:
    """Adopt a pod that a node has and the workload has no record of. Return whether it was adopted.

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
    if state.names.is_shared:
        taken = {pod.number for pod in state.pods.values()}
        number = next(state.names.free_numbers(state.numbered, taken))
    leaving = said.state == "ending"
    pod = KnownPod(number=number, revision=revision, created=now, node=node)
    pod.leaving, pod.is_told, pod.why = leaving, leaving, said.why if leaving else ""
    state.pods[state.new_name(state.key(number), node)] = pod
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
        pod.keep(said.report)
        pod.ready_at = (pod.ready_at or now) if said.report.ready else None
    pod.refused, pod.trouble = said.state == "refused", said.why if said.state == "refused" else ""
    pod.moving = news.draining
    pod.presence = "Unknown" if news.presence == "Joining" else news.presence
    pod.since = (pod.since or now) if pod.presence == "Unknown" else None


def is_outdated(nodes: Sequence[NodeOffer], news: PodsChanged) -> bool:
    """Say whether the survey that found these nodes is outdated, according to a node's report."""
    if news.removed:
        return False  # a new survey would find no more than this report has
    found = [node for node in nodes if node.name == news.node]
    if not found:
        return news.presence != "Joining"  # until it has joined, no survey finds it
    return found[0].presence != news.presence


def as_reported(nodes: Sequence[NodeOffer], news: PodsChanged, *, presence: bool = True) -> tuple[NodeOffer, ...]:
    """Return the nodes of a survey, updated by a later report of a node. A removed or joining node has no offer.

    Without `presence` the node's presence stays as the survey found it.
    """
    changed: dict[str, Any] = {"unschedulable": news.unschedulable, "doubled": news.doubled}
    if presence:
        changed["presence"] = news.presence
    has_offer = not (news.removed or changed.get("presence") == "Joining")
    return tuple(
        replace(node, **changed) if node.name == news.node else node
        for node in nodes
        if node.name != news.node or has_offer
    )
