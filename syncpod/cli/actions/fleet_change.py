"""Changes what a fleet's nodes run: applies manifests, deletes objects, cordons nodes, and drains them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncpod.cli.console import remark, say, warn
from syncpod.cli.deletion import delete
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest
from syncpod.cli.input.fleet_manifests import fleet_manifests
from syncpod.cli.maintenance import Change, Draining, drain, set_schedulable
from syncpod.cli.temporal import fleet, fleet_objects, fleet_pod_changes, fleet_workloads
from syncpod.cli.temporal.fleet_deletion import FleetThings
from syncpod.cli.temporal.fleet_images import image_warnings
from syncpod.cli.temporal.fleet_nodes import FleetNodes
from syncpod.fleet.workload_traits import KINDS

if TYPE_CHECKING:
    from temporalio.client import Client


def apply_manifests(filenames: Sequence[str], namespace: str, state_dir: str) -> None:
    """Apply the objects of these manifests to the fleet, and print each change.

    `namespace` is for documents that name none. Raises BadInput before anything is applied, and Failure.
    """
    manifests = fleet_manifests(filenames, namespace)
    for warning in manifests.warnings:
        warn(warning)
    sealing = fleet.object_sealing(state_dir)

    async def work(client: Client) -> None:
        for warning in await image_warnings(client, [*manifests.pods, *manifests.workloads]):
            warn(warning)
        for each in manifests.objects:
            change = await fleet_objects.apply(client, sealing, each)
            say(f"{each.kind.lower()}/{each.metadata.name} {change}")
        if manifests.pods:
            async for pod, change in fleet_pod_changes.apply(client, manifests.pods):
                say(f"pod/{pod.metadata.name} {change}")
        for workload in manifests.workloads:
            word = await fleet_workloads.apply(client, workload)
            say(f"{KINDS[workload.kind].resource}/{workload.metadata.name} {word}")

    fleet.run(work, state_dir=state_dir)


def delete_things(request: DeletionRequest, how: Deleting, node: str, state_dir: str) -> None:
    """Delete objects of the fleet, pods only on this node; "" = on all. Raises BadInput, Failure."""
    things = fleet.run(
        lambda client: delete(FleetThings(client, node, force=how.force), request, how), state_dir=state_dir
    )
    if not things:
        remark("No resources found")


def set_nodes_schedulable(names: Sequence[str], change: Change, state_dir: str) -> None:
    """Cordon or uncordon nodes of the fleet. Raises BadInput, Failure."""
    fleet.run(lambda client: set_schedulable(FleetNodes(client), names, change), state_dir=state_dir)


def drain_nodes(names: Sequence[str], how: Draining, skip_after: int, state_dir: str) -> None:
    """Drain nodes of the fleet, one after the other. Raises BadInput, Failure.

    A pod that has been ending for longer than `skip_after` seconds is not waited for; 0 = each is.
    """
    fleet.run(lambda client: drain(FleetNodes(client, skip_after), names, how), state_dir=state_dir)
