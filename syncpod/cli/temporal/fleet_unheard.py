"""Reads the fleet's own records of a pod whose node does not answer."""

from __future__ import annotations

from temporalio.client import Client

from syncpod.cli.temporal import fleet_workloads
from syncpod.cli.temporal.fleet_pods import FoundPod, wanted_pods
from syncpod.cli.view.unheard_pod import UnheardPod
from syncpod.fleet.when_lost import WAIT, WhenLost, when_lost
from syncpod.messages.fleet import PlacedPod
from syncpod.messages.workload import WorkloadPod


async def unheard(client: Client, found: FoundPod, *, silent: str = "") -> UnheardPod | None:
    """Return the fleet's records of a pod on an Unknown node; None if the node can answer, or the pod is not recorded.

    `silent` is a clause about how a node that is not Unknown failed to answer; "" = no request was sent to it. Raises
    Failure.
    """
    placed = found.placed
    if (found.node.presence != "Unknown" and not silent) or placed is None:
        return None
    kind, copy = await _in_workload(client, found.node.name, placed)
    return UnheardPod(found.node, placed, kind, await _rule(client, found.node.name, placed), copy, silent)


async def _in_workload(client: Client, node: str, placed: PlacedPod) -> tuple[str, WorkloadPod | None]:
    """Return the kind of the pod's workload, and the pod in the workload's view."""
    _, kind, namespace, name = [*placed.owner.split("/", 3), "", "", ""][:4]
    workload = await fleet_workloads.view(client, kind, namespace, name) if name else None
    pods = workload.pods if workload is not None else ()
    return kind, next((each for each in pods if (each.name, each.node) == (placed.name, node)), None)


async def _rule(client: Client, node: str, placed: PlacedPod) -> WhenLost:
    """Return the pod's rule for a lost node, from the document that the fleet sent to the node."""
    document = (await wanted_pods(client, [node])).get((node, placed.namespace, placed.name))
    try:
        return when_lost((document or {}).get("metadata", {}).get("annotations") or {})
    except ValueError:  # written by another version of the fleet
        return WAIT
