"""Finds the pods of a fleet, and the nodes that they are on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from temporalio.client import Client

from syncpod.cli.console import remark
from syncpod.cli.failure import Failure
from syncpod.cli.input.fleet_names import kind_and_name
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.cli.view.untaken_pod import silence_of
from syncpod.fleet.members import Member, health
from syncpod.fleet.workload_pods import is_name_for, workload_id
from syncpod.fleet.workload_traits import KINDS, TEMPLATED
from syncpod.messages.fleet import FleetNodeView, PlacedPod, PodReport
from syncpod.messages.workload import PendingPod, WorkloadSummary


@dataclass(frozen=True)
class FoundPod:
    """A pod, and the node that has it."""

    node: FleetNodeView
    name: str
    placed: PlacedPod | None
    """The fleet's view of it; None = it is not one of the fleet's pods, or it is gone."""


class NotInFleet(Failure):
    """The fleet has no such pod now."""


class OnNoNode(Failure):
    """No node has the pod yet. The text has the reason, and the command that shows more."""

    def __init__(self, pod: PendingPod, why: str) -> None:
        """`why` is the reason, as a clause."""
        super().__init__(f"pod {pod.name} is on no node yet: {why} (`fleet explain --placement {pod.name}` says more)")
        self.pod = pod
        self.why = why


class NotTaken(Failure):
    """The pod's node does not have it, and refuses it or has not answered. The text names the reason."""

    def __init__(self, found: FoundPod, placed: PlacedPod) -> None:
        """`placed` is the fleet's view of the pod."""
        why = f": {placed.refusal}" if placed.refusal else f" yet (`fleet describe pod {found.name}` says more)"
        super().__init__(f"node {found.node.name} has not taken pod {found.name}{why}")
        self.node, self.placed = found.node, placed


def require_taken(found: FoundPod) -> FoundPod:
    """Return the pod. Raises NotTaken if its node does not have it: another pod may have its name there."""
    if found.placed is not None and found.placed.is_untaken:
        raise NotTaken(found, found.placed)
    return found


async def find_pod(
    client: Client, words: Sequence[str], namespace: str, node: str = "", *, unwell: bool = False
) -> FoundPod:
    """Return the named pod, ``web`` or ``pod web``, or one pod of a workload, ``deployment/web``.

    For a workload, the best pod to query is returned; with `unwell`, a pod that is not well, if there is one. With
    `node`, the pod need not be the fleet's: its existence is not checked. Raises NotInFleet if there is no such pod,
    OnNoNode if the fleet has no node for it yet, and NotTaken if its node does not have it.
    """
    kind, name = kind_and_name(words)
    is_pod = kind not in TEMPLATED
    if node and is_pod:
        view = await fleet.view(client, node)
        return FoundPod(view, name, next((each for each in view.placed if _is(each, namespace, name)), None))
    owner = workload_id(kind, namespace, name)
    views = await fleet.views(client, [node] if node else [])
    found = [
        FoundPod(view, each.name, each)
        for view in views
        for each in view.placed
        if (_is(each, namespace, name) if is_pod else each.owner == owner)
    ]
    if not found and is_pod:
        for one in await fleet_workloads.all_summaries(client, namespace):
            pending = next((each for each in one.pending if each.name == name), None)
            if pending := pending or await _unanswered(client, one, name):
                raise _on_no_node(pending, views)
        if (pending := await fleet_workloads.just_applied(client, namespace, name)) is not None:
            raise _on_no_node(pending, views)
        other = "name the node of a pod that is not the fleet's with --node"
        raise NotInFleet(f'pods "{name}" not found in the fleet; {other}')
    if not found:
        workload = await fleet_workloads.view(client, kind, namespace, name)
        called = f'{KINDS[kind].resources} "{name}"'
        missing = f"{called} not found in the fleet" if workload is None else f"no pods of {called} found in the fleet"
        raise NotInFleet(missing)
    if unwell and not is_pod and (chosen := await _least_well(client, found, (kind, namespace, name))) is not None:
        return require_taken(chosen)
    chosen = await _best(client, found, None if is_pod else (kind, namespace, name))
    if not is_pod and len(found) > 1:
        remark(f"Found {len(found)} pods, using pod/{chosen.name}")
    elif len(found) > 1:
        where = ", ".join(sorted(each.node.name for each in found))
        remark(f"Note: {len(found)} pods are called {name}, on {where}: using that on {chosen.node.name} (or --node)")
    return require_taken(chosen)


def _on_no_node(pod: PendingPod, views: Sequence[FleetNodeView]) -> OnNoNode:
    """Return the failure for a pod on no node, with the time for which the chosen node has been silent."""
    silences = (silence_of(each, datetime.now(UTC)) for each in views if each.name == pod.node)
    return OnNoNode(pod, "; ".join(filter(None, (pod.why or "the fleet is looking for one", next(silences, "")))))


async def _unanswered(client: Client, owner: WorkloadSummary, name: str) -> PendingPod | None:
    """Return a workload's pod if its chosen node does not have it yet; else None."""
    if not is_name_for(workload_id(owner.kind, owner.namespace, owner.name), owner.namespace, name):
        return None
    found = await fleet_workloads.view(client, owner.kind, owner.namespace, owner.name)
    pods = found.pods if found is not None else ()
    chosen = (pod for pod in pods if pod.name == name and pod.node and not pod.leaving and pod.why)
    return next((PendingPod(name=name, node=pod.node, why=pod.why) for pod in chosen), None)


async def selected_pods(
    client: Client, matches: Callable[[Mapping[str, str]], bool], namespace: str | None, node: str = ""
) -> list[FoundPod]:
    """Return the fleet's pods whose labels match, sorted by name and node; with `node`, only the pods of that node.

    `namespace` None = all. Raises Failure.
    """
    views = await fleet.views(client, [node] if node else [])
    wanted = await wanted_pods(client, [view.name for view in views])
    chosen = {key for key, pod in wanted.items() if matches(pod["metadata"].get("labels") or {})}
    found = [
        FoundPod(view, each.name, each)
        for view in views
        for each in view.placed
        if namespace in (None, each.namespace) and (view.name, each.namespace, each.name) in chosen
    ]
    return sorted(found, key=lambda each: (each.name, each.node.name))


async def wanted_pods(client: Client, nodes: Collection[str]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the v1 Pods in the lists of these nodes, by node, namespace and name. Raises Failure."""
    names = sorted(nodes)
    lists = await asyncio.gather(*(fleet.intent(client, name) for name in names))
    return {
        (name, pod["metadata"].get("namespace") or "default", pod["metadata"]["name"]): pod
        for name, told in zip(names, lists, strict=True)
        for pod in told.pods
    }


def _is(pod: PlacedPod, namespace: str, name: str) -> bool:
    return (pod.namespace, pod.name) == (namespace, name)


async def _best(client: Client, found: Sequence[FoundPod], owner: tuple[str, str, str] | None) -> FoundPod:
    """Return the best pod to query: one that stays, can be reached, runs, is ready, and has the current template.

    `owner` is None if the pods belong to several workloads, or to none.
    """
    workload = await fleet_workloads.view(client, *owner) if owner is not None and len(found) > 1 else None

    def rank(one: FoundPod) -> tuple[bool, bool, bool, bool, bool, str]:
        placed = one.placed or PlacedPod()
        report = placed.report or PodReport()
        return (
            placed.state == "ending",
            one.node.presence != "Ready",
            report.phase != "Running",
            not report.ready,
            workload is not None and placed.revision != workload.revision,
            one.name,
        )

    return min(found, key=rank)


async def _least_well(client: Client, found: Sequence[FoundPod], owner: tuple[str, str, str]) -> FoundPod | None:
    """Return the least well pod of a workload: one that fails, is not ready, or is silent.

    Returns None if all are ready. A note shows how many are not well. Raises OnNoNode for a pod that has no node, if no
    other unwell pod is on a node that can be reached.
    """
    unwell = sorted((each for each in found if not _is_well(each)), key=_trouble)
    workload = await fleet_workloads.view(client, *owner)
    homeless = [each for each in (workload.pods if workload is not None else ()) if not each.node and not each.leaving]
    if not unwell and not homeless:
        return None
    is_homeless = bool(homeless) and (not unwell or unwell[0].node.presence == "Unknown")
    chosen = homeless[0].name if is_homeless else unwell[0].name
    if (number := len(found) + len(homeless)) > 1:
        remark(f"Found {number} pods, {len(unwell) + len(homeless)} not well, using pod/{chosen}")
    if is_homeless:
        raise _on_no_node(PendingPod(name=chosen, node=homeless[0].bound, why=homeless[0].why), [])
    return unwell[0]


def _is_well(one: FoundPod) -> bool:
    placed = one.placed or PlacedPod()
    return placed.state == "ending" or (one.node.presence == "Ready" and (placed.report or PodReport()).ready)


def _trouble(one: FoundPod) -> tuple[bool, bool, bool, int, str]:
    """Return the sort key of a pod that is not well: failing pods come first, and pods of silent nodes last."""
    placed = one.placed or PlacedPod()
    report = placed.report or PodReport()
    member = Member(placed.name, placed.revision, datetime.min.replace(tzinfo=UTC), status=report.status)
    judged = health(member)
    return (one.node.presence != "Ready", judged != "failing", judged == "fine", -report.restarts, one.name)
