"""The placement of a workload's pods: the pods that need a node, the choice of nodes, and the orders to nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.placement import NAME_TAKEN, Placement, place, with_pod
from syncpod.fleet.workload_pods import number_of
from syncpod.fleet.workloads import kind_of
from syncpod.messages.node import PodKey
from syncpod.pod import Pod, pod_to_wire
from workflows.fleet.workload_state import WorkloadState
from workflows.rejections import Rejected

PLACED_AT_ONCE: Final = 25
"""The most pods that are placed in one workflow task, and the most that one request sends to a node."""


def unplaced(state: WorkloadState, tried: Collection[str] = ()) -> list[str]:
    """Return the pods that need a node now, oldest first, at most :data:`PLACED_AT_ONCE`. `tried` are left out."""
    names = [name for name, pod in state.pods.items() if not pod.node and not pod.leaving and name not in tried]
    return sorted(names, key=lambda name: state.pods[name].number)[:PLACED_AT_ONCE]


def like(state: WorkloadState, name: str) -> set[str]:
    """Return a pod that fits no node, with all other pods that fit none for the same reasons."""
    one = state.pods[name]
    return {
        other
        for other, pod in state.pods.items()
        if other == name or (not pod.node and not one.bound and not pod.bound and pod.revision == one.revision)
    }


def may_be_placed(state: WorkloadState, name: str, silent: Collection[str]) -> bool:
    """Say whether a node can be chosen for a pod now; `silent` are nodes with a request that is not answered yet."""
    pod = state.pods.get(name)
    return pod is not None and not pod.leaving and not pod.node and pod.bound not in silent


def pod_to_run(state: WorkloadState, name: str) -> Pod:
    """Return a pod of the workload, as its node must run it. Raises Rejected if the workload has no document."""
    workload, pod = state.workload(), state.pods[name]
    if workload is None:
        raise Rejected("nothing has been applied")
    kind = kind_of(workload)
    template = state.template(pod.revision) if state.has_template else kind.template(workload)
    return kind.pod(workload, template, pod.number)


def outdated(state: WorkloadState) -> list[str]:
    """Return the outdated copies of a single Pod: their nodes must get the newest document."""
    if state.has_template:
        return []
    asked = state.asked_for()
    return [name for name, pod in sorted(state.pods.items()) if pod.node and not pod.leaving and pod.revision != asked]


def to_prove(state: WorkloadState) -> dict[str, list[str]]:
    """Return some adopted pods by node: only the node claims them, and the workload has a template for them.

    The node gets no Secret for them until its workflow has compared them with the documents of the workload.
    """
    found: dict[str, list[str]] = {}
    for name, pod in sorted(state.pods.items()):
        is_due = pod.recalled and not pod.is_proof_sent
        if is_due and pod.node and not pod.leaving and pod.revision in state.templates:
            found.setdefault(pod.node, []).append(name)
    return {node: names[:PLACED_AT_ONCE] for node, names in found.items()}


def proof_sent(state: WorkloadState, names: Iterable[str]) -> None:
    """Record that these pods' documents, as the workload makes them now, were sent to the workflow of their node.

    The next report of a pod shows whether the pod matches its document. If not, it gets no Secret until another
    template is rolled out. Sending the document again would change nothing.
    """
    for name in names:
        if name in state.pods:
            state.pods[name].is_proof_sent = True


def samples(state: WorkloadState, names: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """Return one of these pods for each template. A survey returns the details that their placement depends on."""
    by_revision = {state.pods[name].revision: name for name in names}
    return tuple(pod_to_wire(pod_to_run(state, name)) for _, name in sorted(by_revision.items()))


def placements(
    state: WorkloadState, names: Sequence[str], nodes: Sequence[NodeOffer], owner: str, now: datetime
) -> dict[str, tuple[Pod, Placement]]:
    """Choose a node for each of these pods. Each choice takes those before it into account.

    A pod that fits nowhere because other pods have its name gets another number, if its kind may skip names.
    """
    offers = {node.name: node for node in nodes}
    found = {}
    for first in names:
        name, (pod, placement) = first, _placement(state, first, offers, owner)
        if (
            not placement.node
            and state.names.is_passed_over
            and any(NAME_TAKEN in fit.reasons for fit in placement.nodes)
        ):
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
    """Give a pod that is on no node another number, so that no pod on any node has its name; return the new name."""
    workload, called = state.workload(), {name for node in nodes for name in node.namesakes}
    found = (number_of(workload, each) for each in called) if workload is not None else ()
    taken = {number for number in found if number is not None} | {pod.number for pod in state.pods.values()}
    state.numbered = next(state.names.free_numbers(state.numbered, taken))
    new = state.key(state.numbered)
    state.pods[new] = state.pods.pop(name).model_copy(update={"number": state.numbered})
    state.event(now, "Normal", "Renamed", f"{name} is called {new} from now on: another pod has its name")
    return new


def to_withdraw(state: WorkloadState, asked: Collection[str]) -> dict[str, tuple[PodKey, ...]]:
    """Return the pods that must be withdrawn, by node; the node has no order to end them yet.

    `asked` are pods that a node is being requested to run. They are left out: if the withdrawal overtook that request,
    the node would ignore the withdrawal.
    """
    found: dict[str, tuple[PodKey, ...]] = {}
    for name, pod in sorted(state.pods.items()):
        if pod.leaving and pod.node and not pod.is_told and name not in asked:
            key = PodKey(namespace=state.namespace, name=state.pod_name(name))
            found[pod.node] = (*found.get(pod.node, ()), key)
    return found
