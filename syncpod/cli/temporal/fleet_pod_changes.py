"""Applies and deletes pods of a fleet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.fleet.workload_pods import workload_id
from syncpod.fleet.workload_traits import POD
from syncpod.messages.fleet import FleetNodeView, PlacedPod
from syncpod.pod import Pod, pod_to_wire

_Key: TypeAlias = tuple[str, str]
"""The namespace and the name of a pod."""
_Holder: TypeAlias = tuple[str, str]
"""The node that has a pod, and the pod's owner; "" = none."""


@dataclass(frozen=True)
class PodDeletionResult:
    """The result of deleting a pod."""

    is_placed: bool
    """Whether the fleet itself had placed it, as a single Pod."""
    nodes: Sequence[FleetNodeView]
    """The nodes that had it, as they were before the deletion."""
    owners: Sequence[str]
    """The ids of workloads that create another pod in its place."""


@dataclass(frozen=True)
class PodChange:
    """The result of applying a pod."""

    pod: Pod
    word: str
    """kubectl's word for the change, such as ``created``."""
    node: str
    """The node that the pod was applied with; "" = the fleet chooses one."""

    def __str__(self) -> str:
        """Return the change as it is printed behind the pod's name."""
        return f"{self.word} on node/{self.node}" if self.node else self.word


async def apply(client: Client, pods: Iterable[Pod]) -> AsyncIterator[PodChange]:
    """Run pods on the nodes that they name, or else on nodes that the fleet chooses; yield the result of each.

    A pod that was applied with a node's name stays on that node. The pods of the fleet's nodes are read only once.
    Raises Failure.
    """
    nodes = await fleet.views(client)
    held, generations = _held(nodes), {node.name: node.generation for node in nodes}
    for pod in pods:
        where, is_there = await _destination(client, pod, held)
        if not where:
            yield PodChange(pod, await fleet_workloads.apply(client, pod), "")
            continue
        generation = (await fleet.update(client, where, "place", {"pods": [pod_to_wire(pod)]}))["generation"]
        changed = "unchanged" if generation == generations.get(where) else "configured"
        yield PodChange(pod, changed if is_there else "created", where)
        generations[where] = generation


async def forecast(client: Client, pods: Iterable[Pod]) -> AsyncIterator[PodChange | Failure]:
    """Yield for each pod the result that `apply` would have, or the Failure, without applying anything.

    It is not known whether a node or a workload would refuse a change. Raises Failure if the nodes cannot be read.
    """
    held = _held(await fleet.views(client))
    for pod in pods:
        try:
            yield await _forecast(client, pod, held)
        except Failure as failure:
            yield failure


async def _forecast(client: Client, pod: Pod, held: Mapping[_Key, _Holder]) -> PodChange:
    where, is_there = await _destination(client, pod, held)
    if not where:
        return PodChange(pod, await fleet_workloads.forecast(client, pod), "")
    if not is_there:
        await fleet.view(client, where)  # raises NoNode
        return PodChange(pod, "created", where)
    same = pod_to_wire(pod) in (await fleet.intent(client, where)).pods
    return PodChange(pod, "unchanged" if same else "configured", where)


def _held(nodes: Iterable[FleetNodeView]) -> dict[_Key, _Holder]:
    return {(one.namespace, one.name): (node.name, one.owner) for node in nodes for one in node.placed}


async def _destination(client: Client, pod: Pod, held: Mapping[_Key, _Holder]) -> tuple[str, bool]:
    """Return the node that a pod is applied with ("" = the fleet chooses one), and whether the pod is there already.

    Raises Failure for a pod that is on another node.
    """
    namespace, name = pod.metadata.namespace or "default", pod.metadata.name
    there, owner = held.get((namespace, name), ("", ""))
    where = pod.spec.node_name or ("" if owner else there)
    if not where or await fleet_workloads.view(client, POD.name, namespace, name) is not None:
        return "", bool(there)
    if there not in ("", where):
        raise Failure(f"pod {name} is on node {there}: delete it there before it goes to {where}")
    return where, bool(there)


async def delete(client: Client, namespace: str, name: str, *, node: str = "", force: bool) -> PodDeletionResult:
    """Delete a pod on all nodes, or on `node`; with `force`, do not wait for the nodes.

    Different workloads may have pods of one name on different nodes. In that case, nothing is deleted without `node`,
    and Failure is raised.
    """
    views = await fleet.views(client, [node] if node else [])
    holders = [each for each in views if _here(each, namespace, name)]
    own = workload_id(POD.name, namespace, name)
    owned = [(each.owner, view.name) for view in holders for each in _here(view, namespace, name)]
    if len({owner for owner, _ in owned}) > 1:
        known = ", ".join(f"one of {owner or 'no workload'} on {where}" for owner, where in sorted(owned))
        raise Failure(f"{len(owned)} pods are called {name}: {known}: name the node of the one to delete with --node")
    is_own = not node or any(owner == own for owner, _ in owned)
    is_placed = is_own and await fleet_workloads.delete(client, POD.name, namespace, name)
    owners = {owner for owner, _ in owned if owner}
    change = {"pods": [{"namespace": namespace, "name": name}], "reason": "deleted by hand", "force": force}
    for holder in holders:
        # A placed pod is withdrawn by its own workflow. If the fleet has lost that workflow, this is the only way.
        if force or not is_placed or any(each.owner != own for each in _here(holder, namespace, name)):
            await fleet.update(client, holder.name, "withdraw", change)
    return PodDeletionResult(is_placed, holders, sorted(owners - {own}))


async def unknown(client: Client, namespace: str, names: Sequence[str], node: str = "") -> list[str]:
    """Return the names for which the fleet has no pod, either on a node or yet to be placed.

    With `node`, return those for which that node has no pod. Raises Failure.
    """
    if not names:
        return []
    views = await fleet.views(client, [node] if node else [])
    absent = [name for name in names if not any(_here(each, namespace, name) for each in views)]
    if node:
        return absent
    placed = POD.name
    return [name for name in absent if await fleet_workloads.view(client, placed, namespace, name) is None]


def _here(node: FleetNodeView, namespace: str, name: str) -> list[PlacedPod]:
    return [each for each in node.placed if (each.namespace, each.name) == (namespace, name)]
