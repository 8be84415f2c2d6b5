"""Waits until pods of a fleet are up, by the reports of their nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from temporalio.client import Client

from syncpod.cli.console import say
from syncpod.cli.failure import Failure, together
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.cli.temporal.fleet_pod_changes import PodChange
from syncpod.cli.temporal.pod_waits import Settled
from syncpod.fleet.workload_traits import POD
from syncpod.messages.fleet import FleetNodeView

_LOOK_SECONDS: Final = 0.5


async def until_up(client: Client, changes: Sequence[PodChange], end: float | None) -> None:
    """Wait until each applied pod is ready or has finished, or until `end` in the loop's time; print each that is up.

    Without an `end` there is no limit. A pod counts as ready by the last report of its node since the node has taken
    the change. Raises one Failure for all pods that have failed, are gone, or are not ready in time.
    """
    left, failures, loop = list(changes), list[Failure](), asyncio.get_running_loop()
    while left:
        is_over = end is not None and loop.time() >= end
        waiting = []
        for change, (state, why) in zip(left, await _states(client, left), strict=True):
            name = change.pod.metadata.name
            match state:
                case Settled.READY | Settled.SUCCEEDED:
                    say(f"pod/{name} {state.value}")
                case Settled.FAILED:
                    failures.append(Failure(f'pod "{name}" has failed: {why}'))
                case Settled.GONE:
                    failures.append(Failure(f'pod "{name}" has been deleted meanwhile'))
                case Settled.NOT_YET if is_over:
                    failures.append(Failure(f'timed out waiting for pod "{name}" to be ready: {why}'))
                case Settled.NOT_YET:
                    waiting.append(change)
        left = waiting
        if left:
            await asyncio.sleep(_LOOK_SECONDS)
    if failures:
        raise together(failures, done=len(failures) < len(changes))


async def _states(client: Client, changes: Sequence[PodChange]) -> list[tuple[Settled, str]]:
    """Return the state of each pod, and why it is not ready. Raises Failure."""
    places = await asyncio.gather(*(_place(client, each) for each in changes))
    names = sorted({node for node, _ in places if node})
    views = dict(zip(names, await asyncio.gather(*(fleet.view(client, name) for name in names)), strict=True))
    return [
        _state_there(change, views[node]) if node else (Settled.NOT_YET if why else Settled.GONE, why)
        for change, (node, why) in zip(changes, places, strict=True)
    ]


async def _place(client: Client, change: PodChange) -> tuple[str, str]:
    """Return a pod's node, and why it has none; both are "" for a pod that is deleted. Raises Failure."""
    if change.node:
        return change.node, ""
    meta = change.pod.metadata
    view = await fleet_workloads.view(client, POD.name, meta.namespace or "default", meta.name)
    if view is None or view.deleting:
        return "", ""
    if not view.observed:
        return "", "the fleet has not taken the change yet"
    found = [pod for pod in view.pods if not pod.leaving]
    if not found or not found[0].node:
        return "", (found[0].why if found else "") or "the fleet is looking for a node"
    return found[0].node, ""


def _state_there(change: PodChange, node: FleetNodeView) -> tuple[Settled, str]:
    """Return the state of a pod on its node, and why it is not ready."""
    key = (change.pod.metadata.namespace or "default", change.pod.metadata.name)
    placed = next((each for each in node.placed if (each.namespace, each.name) == key), None)
    if placed is None:
        return (Settled.GONE, "") if change.node else (Settled.NOT_YET, f"node {node.name} does not have it yet")
    if placed.state == "refused":
        return Settled.FAILED, f"node {node.name} refuses it: {placed.why}"
    if placed.state == "ending":
        return Settled.NOT_YET, f"it is ending on node {node.name}"
    if placed.state == "placed" or placed.report is None:
        return Settled.NOT_YET, f"node {node.name} has not taken it yet"
    report = placed.report
    if report.phase == "Succeeded":
        return Settled.SUCCEEDED, ""
    why = ": ".join(filter(None, (f"it is {report.status or report.phase} on node {node.name}", report.message)))
    if report.phase == "Failed":
        return Settled.FAILED, why
    return (Settled.READY if report.ready else Settled.NOT_YET), why
