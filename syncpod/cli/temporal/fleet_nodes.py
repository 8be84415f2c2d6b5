"""Cordons and drains nodes of a fleet. The fleet itself moves their pods to other nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.client import Client

from syncpod.cli.console import remark, warn
from syncpod.cli.failure import Failure
from syncpod.cli.maintenance import Change, Draining, PodToDrain, named
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.fleet.workload_pods import workload_in
from syncpod.fleet.workload_traits import is_per_node
from syncpod.messages.fleet import FleetNodeView, PlacedPod

_LOOK_SECONDS: Final = 0.5


class FleetNodes:
    """The nodes of a fleet; implements `syncpod.cli.maintenance.Nodes`."""

    def __init__(self, client: Client, skip_after: int = 0) -> None:
        """Do not wait for pods that have been ending for more than `skip_after` seconds; 0 = wait for all."""
        self._client, self._skip_after = client, skip_after
        self.cordoned_there: list[str] = []
        """The nodes that `cordoned` has found cordoned on the node itself."""

    async def cordoned(self, names: Sequence[str]) -> set[str]:
        """Return the nodes among these that the fleet has cordoned. Raises Failure."""
        views = await fleet.views(self._client, names)
        self.cordoned_there = [each.name for each in views if "node" in each.cordons]
        return {each.name for each in views if "fleet" in each.cordons}

    async def change(self, name: str, change: Change) -> None:
        """Cordon or uncordon a node in the fleet. Raises Failure."""
        await fleet.update(self._client, name, change)

    async def pods(self, name: str) -> tuple[list[PodToDrain[PlacedPod]], list[str]]:
        """Return the pods of a node, and no reasons against a drain: a fleet has none. Raises Failure."""
        node, told = await fleet.view(self._client, name), await fleet.intent(self._client, name)
        metas = [each.get("metadata", {}) for each in told.pods if _has_data(each)]
        with_data = {(each.get("namespace") or "default", each.get("name", "")) for each in metas}
        return [
            PodToDrain(
                each.namespace,
                each.name,
                each,
                stays="daemon" if is_daemon(each) else "",
                is_unmanaged=not each.owner and each.state != "ending",
                has_data=(each.namespace, each.name) in with_data,
            )
            for each in node.placed
        ], []

    async def evicted(
        self, name: str, pods: Sequence[PodToDrain[PlacedPod]], how: Draining
    ) -> AsyncIterator[PodToDrain[PlacedPod]]:
        """Make the fleet replace these pods; yield each that has left the node, and print why the others are there.

        Raises Failure on a timeout.
        """
        await fleet.update(self._client, name, "drain")
        if keys := [{"namespace": each.namespace, "name": each.name} for each in pods if each.is_unmanaged]:
            await fleet.update(self._client, name, "withdraw", {"pods": keys, "reason": f"{name} is being drained"})
        left = {(each.namespace, each.name): each for each in pods}
        loop, said = asyncio.get_running_loop(), ""
        end = loop.time() + how.patience.total_seconds() if how.patience else None
        while left:
            node = await fleet.view(self._client, name)
            there = {(each.namespace, each.name): each for each in node.placed}
            for key in [key for key in left if key not in there]:
                yield left.pop(key)
            for key in [key for key in left if self._is_long_ending(there[key])]:
                warn(f"pod {'/'.join(key)} has been ending for more than {self._skip_after} s, and is not waited for")
                del left[key]
            if not node.draining:
                stay = named(left.values())
                raise Failure(f"node {name} was uncordoned meanwhile, so these pods stay: {stay}")
            if left and (why := await _in_the_way(self._client, node, [there[key] for key in left])) != said:
                said = why
                if why:
                    remark(why)
            if left and end is not None and loop.time() > end:
                raise Failure(
                    f"timed out waiting for {named(left.values())} to leave {name}; the drain "
                    f"continues, and `fleet uncordon {name}` stops it"
                )
            if left:
                await asyncio.sleep(_LOOK_SECONDS)

    def _is_long_ending(self, pod: PlacedPod) -> bool:
        if not self._skip_after or pod.ending is None:
            return False
        return datetime.now(UTC) - pod.ending > timedelta(seconds=self._skip_after)


async def _in_the_way(client: Client, node: FleetNodeView, pods: Sequence[PlacedPod]) -> str:
    """Return a line for each reason why these pods are still on a node that is being drained.

    Pods that have been withdrawn wait for their node, and all others for their workloads.
    """
    lines = []
    ending = [each for each in pods if each.state == "ending"]
    if ending and node.presence == "Unknown":
        until = "count as ending until it is back (`fleet delete pod --force` counts them as gone)"
        lines.append(f"node {node.name} cannot be reached, so these pods {until}: {_names(ending)}")
    elif ending:
        whose = "its grace period" if len(ending) == 1 else "their grace periods"
        lines.append(f"node {node.name} is ending {_names(ending)}, within {whose}")
    for owner in sorted({each.owner for each in pods if each.owner and each.state != "ending"}):
        view = await fleet_workloads.view(client, *workload_in(owner))
        if view is None:
            lines.append(f"{owner} no longer exists: delete its pods with `fleet delete pod`")
        elif view.pending:
            first = view.pending[0]
            lines.append(f"{owner}: {first.name} has no node yet: {first.why or 'the fleet is looking for one'}")
        else:
            lines.append(f"{owner}: {view.says}")
    return "\n".join(lines)


def is_daemon(pod: PlacedPod) -> bool:
    """Return whether a pod belongs to its node, as those of DaemonSets do."""
    return is_per_node(workload_in(pod.owner)[0])


def _has_data(document: dict[str, object]) -> bool:
    spec = document.get("spec")
    volumes = spec.get("volumes", ()) if isinstance(spec, dict) else ()
    return any("emptyDir" in each for each in volumes)


def _names(pods: Iterable[PlacedPod]) -> str:
    return ", ".join(sorted(f"{each.namespace}/{each.name}" for each in pods))
