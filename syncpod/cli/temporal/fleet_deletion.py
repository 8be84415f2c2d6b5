"""Deletes a fleet's workloads, the pods on its nodes, and its ConfigMaps and Secrets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from temporalio.client import Client

from syncpod.cli.console import first_few, paint, remark
from syncpod.cli.deletion import DeletionResult, Going, NotThere
from syncpod.cli.input.deletion_request import Selection, Thing
from syncpod.cli.input.fleet_names import labels_are_sealed
from syncpod.cli.input.kind_words import OBJECTS, PODS
from syncpod.cli.listing import selecting
from syncpod.cli.temporal import fleet, fleet_lists, fleet_objects, fleet_pod_changes, fleet_workloads
from syncpod.fleet.workload_traits import POD
from syncpod.messages.fleet import FleetNodeView, PlacedPod
from syncpod.messages.workload import WorkloadPod, WorkloadView

_LOOK_SECONDS: Final = 0.3
_FEW: Final = 10
"""The pause between two polls grows by _LOOK_SECONDS per this many remaining things."""


class FleetThings:
    """Deletes things of a fleet; implements `syncpod.cli.deletion.Owner`. A deletion continues if the command ends."""

    def __init__(self, client: Client, node: str = "", *, force: bool = False) -> None:
        """Delete pods on `node` only; "" = on all nodes. With `force`, do not wait for the pods' nodes."""
        self._client, self._node, self._force = client, node, force
        self._going = 1
        """The number of things that the command waits for."""

    async def selected(self, selection: Selection) -> list[Thing]:
        """Return the selected things. Raises Failure, and BadInput for objects by their labels, which are sealed."""
        if self._node:
            await fleet.view(self._client, self._node)  # fails if there is no such node
        form = selecting(selection.namespace, selection.conditions, selection.fields)
        found = []
        for kind in selection.kinds:
            if kind in OBJECTS.values() and form.needs_documents:
                raise labels_are_sealed("--selector", kind)
            rows = (await fleet_lists.find(self._client, kind, (), form)).rows
            things = list(dict.fromkeys(Thing(kind, *row.key) for row in rows if self._node in ("", row.place)))
            found += await self._on_nodes(things) if kind in PODS.values() else things
        return found

    async def look(self, thing: Thing) -> DeletionResult:
        """Return an empty result: a dry run prints no notes. Raises NotThere if there is no such thing, and Failure."""
        kind, namespace, name = thing
        if kind in PODS.values():
            is_there = not await fleet_pod_changes.unknown(self._client, namespace, [name], self._node)
        elif kind in OBJECTS.values():
            objects = await fleet_objects.views(self._client, kind, namespace)
            is_there = name in [each.name for each in objects]
        else:
            is_there = await fleet_workloads.view(self._client, kind, namespace, name) is not None
        if not is_there:
            raise _not_there(thing)
        return DeletionResult()

    async def end(self, thing: Thing) -> DeletionResult:
        """Delete a workload, an object, or a pod on all nodes. Raises NotThere and Failure."""
        if thing.kind in PODS.values():
            return await self._end_pod(thing)
        is_object = thing.kind in OBJECTS.values()
        delete_it = fleet_objects.delete if is_object else fleet_workloads.delete
        if not await delete_it(self._client, *thing):
            raise _not_there(thing)
        return DeletionResult(going=[self.going(thing, self.object_left if is_object else self.workload_left)])

    async def begun(self, going: Sequence[Going]) -> Sequence[Going]:
        """Return all of these: a node that cannot be reached ends its pods when it is back."""
        self._going = len(going)
        return going

    async def until_in_vain(self, left: Callable[[], Sequence[Going]]) -> None:
        """Never return: the deletions that are left may end at any time."""
        await asyncio.get_running_loop().create_future()

    def going(self, thing: Thing, *left: Callable[[Thing], Awaitable[str]], where: str = "") -> Going:
        """Return a deletion under way. Each of `left` returns why the thing is still there; the first reason counts."""

        async def why() -> str:
            for each in left:
                if reason := await each(thing):
                    return reason
            return ""

        async def gone() -> None:
            while await why():  # noqa: ASYNC110 - only another query shows it
                await asyncio.sleep(_LOOK_SECONDS * (1 + self._going // _FEW))

        return Going(thing, gone, why, where)

    async def workload_left(self, thing: Thing) -> str:
        """Return why a workload, or a single Pod that the fleet has placed, is not gone yet; "" = it is gone.

        Raises Failure.
        """
        view = await fleet_workloads.view(self._client, *thing)
        # A workload of this name that was applied again meanwhile is not being deleted.
        return "" if view is None or not view.deleting else why_workload_is_left(view)

    async def object_left(self, thing: Thing) -> str:
        """Return why a ConfigMap or a Secret is not gone yet; "" = it is gone. Raises Failure."""
        is_left = await fleet_objects.is_deleting(self._client, *thing)
        return "its deletion is being sent to its nodes" if is_left else ""

    def pod_left(self, node: str) -> Callable[[Thing], Awaitable[str]]:
        """Return a function that returns why a pod on this node is not gone yet; "" = it is gone."""

        async def left(thing: Thing) -> str:
            try:
                view = await fleet.view(self._client, node)
            except fleet.NoNode:
                return ""
            found = [each for each in view.placed if (each.namespace, each.name) == thing[1:]]
            return why_pod_is_left(found[0], view.presence) if found and found[0].state == "ending" else ""

        return left

    async def _on_nodes(self, pods: Sequence[Thing]) -> list[Thing]:
        """Return the pods that can be deleted; a note names the others, which have no node yet."""
        unplaced = set[Thing]()
        for namespace in dict.fromkeys(pod.namespace for pod in pods):
            names = [pod.name for pod in pods if pod.namespace == namespace]
            unknown = await fleet_pod_changes.unknown(self._client, namespace, names, self._node)
            unplaced |= {Thing(POD.name, namespace, name) for name in unknown}
        if unplaced:
            names = sorted(pod.name for pod in unplaced)
            remark(f"Note: pods that no node has yet are left to their workloads: {', '.join(names)}")
        return [pod for pod in pods if pod not in unplaced]

    async def _end_pod(self, thing: Thing) -> DeletionResult:
        _, namespace, name = thing
        ended = await fleet_pod_changes.delete(self._client, namespace, name, node=self._node, force=self._force)
        if not (ended.nodes or ended.is_placed):
            raise _not_there(thing)
        notes = [note for node in ended.nodes for note in self._notes(node)]
        notes += [f"Note: {owner} creates another pod in its place" for owner in ended.owners]
        going = [self.going(thing, self.pod_left(node.name), where=node.name) for node in ended.nodes]
        if ended.is_placed and ended.nodes:
            first = ended.nodes[0].name
            going[0] = self.going(thing, self.pod_left(first), self.workload_left, where=first)
        elif ended.is_placed:
            going = [self.going(thing, self.workload_left)]
        return DeletionResult([node.name for node in ended.nodes] or [""], notes, going)

    def _notes(self, node: FleetNodeView) -> list[str]:
        if node.presence != "Unknown":
            return []
        if not self._force:
            return [f"node {node.name} cannot be reached: it ends the pod when it is back (--force does not wait)"]
        return [
            f"{paint('Warning:', 'yellow', sys.stderr)} node {node.name} cannot be reached: if it is running, the pod "
            "runs there until the node is back and ends it; until then give nothing that the pod holds, such as a lock "
            "or a volume, to another pod"
        ]


def _not_there(thing: Thing) -> NotThere:
    resource, _, name = str(thing).partition(" ")
    kind, dot, group = resource.partition(".")
    return NotThere(f"{kind}s{dot}{group} {name} not found in the fleet")


def why_workload_is_left(view: WorkloadView) -> str:
    """Return why a workload is not gone yet."""
    if not view.pods and view.missed:
        names = ", ".join(view.missed)
        return f"no answer yet from {names}, which may have its pods (a node that is gone: `fleet remove --force`)"
    if not view.pods:
        return "its workflow is ending"
    named = first_few([_pod(pod) for pod in view.pods])
    count = "1 pod is" if len(view.pods) == 1 else f"{len(view.pods)} pods are"
    return f"{count} left: {named}"


def why_pod_is_left(placed: PlacedPod, presence: str) -> str:
    """Return why a pod on a node is not gone yet; `presence` is the node's."""
    if presence == "Unknown":
        return "the node cannot be reached, and ends it when it is back"
    status = placed.report.status if placed.report is not None else ""
    return f"the node is ending it; it is {status}" if status else "the node is ending it"


def _pod(one: WorkloadPod) -> str:
    if not one.node:
        return one.name
    away = ", which cannot be reached" if one.status == "Unknown" else ""
    return f"{one.name} on {one.node}{away}"
