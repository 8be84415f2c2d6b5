"""Pods of a fleet by their names: where they are, having them run somewhere, and having them end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.fleet.workload_pods import workload_id
from syncpod.messages.fleet import FleetNodeView, PlacedPod
from syncpod.pod import Pod, pod_to_wire


@dataclass(frozen=True)
class Ended:
    """What the deletion of a pod found."""

    is_placed: bool
    """The fleet itself had it placed, as a pod by itself."""
    nodes: Sequence[FleetNodeView]
    """Nodes that had it, as they were before."""
    owners: Sequence[str]
    """Workloads that make another in its place, by their workflows' ids."""


async def apply(client: Client, pod: Pod) -> str:
    """Have a pod run on the node that it names, else on the one that is chosen for it; return what that did.

    A pod that was given to a node by its name stays there. Raises Failure.
    """
    namespace, name = pod.metadata.namespace or "default", pod.metadata.name
    holders = [node for node in await fleet.views(client) if _here(node, namespace, name)]
    by_hand = [node for node in holders if any(not each.owner for each in _here(node, namespace, name))]
    if await fleet_workloads.view(client, fleet_workloads.POD, namespace, name) is not None:
        return await fleet_workloads.apply(client, pod)
    if not pod.spec.node_name and not by_hand:
        return await fleet_workloads.apply(client, pod)
    return await _place(client, pod, pod.spec.node_name or by_hand[0].name, holders[0] if holders else None)


async def _place(client: Client, pod: Pod, node: str, held: FleetNodeView | None) -> str:
    """Have one node run a pod. Raises Failure."""
    name = pod.metadata.name
    if held is not None and held.name != node:
        raise Failure(f"pod {name} is on node {held.name}: delete it there before it goes to {node}")
    before = held.generation if held is not None else -1
    answer = await fleet.update(client, node, "place", {"pods": [pod_to_wire(pod)]})
    word = "created" if held is None else "unchanged" if answer["generation"] == before else "configured"
    return f"{word} on node/{node}"


async def delete(client: Client, namespace: str, name: str, *, force: bool) -> Ended:
    """Have a pod end wherever it is; `force`: without waiting for the word of its nodes. Raises Failure."""
    holders = [node for node in await fleet.views(client) if _here(node, namespace, name)]
    own = workload_id(fleet_workloads.POD, namespace, name)
    is_placed = await fleet_workloads.delete(client, fleet_workloads.POD, namespace, name)
    owners = {each.owner for node in holders for each in _here(node, namespace, name) if each.owner}
    change = {"pods": [{"namespace": namespace, "name": name}], "reason": "deleted by hand", "force": force}
    for node in holders:
        # The workflow of a placed pod withdraws it itself; where the fleet has lost that workflow, nobody else does.
        if force or not is_placed or any(each.owner != own for each in _here(node, namespace, name)):
            await fleet.update(client, node.name, "withdraw", change)
    return Ended(is_placed, holders, sorted(owners - {own}))


def _here(node: FleetNodeView, namespace: str, name: str) -> list[PlacedPod]:
    return [each for each in node.placed if (each.namespace, each.name) == (namespace, name)]
