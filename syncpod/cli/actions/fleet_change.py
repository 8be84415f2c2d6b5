"""Changes what a fleet's nodes run: deletes objects, cordons nodes, and drains them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncpod.cli.console import remark
from syncpod.cli.deletion import delete
from syncpod.cli.failure import Failure
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest
from syncpod.cli.maintenance import Change, Draining, drain, set_schedulable
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_deletion import FleetThings
from syncpod.cli.temporal.fleet_nodes import FleetNodes

if TYPE_CHECKING:
    from temporalio.client import Client


def delete_things(request: DeletionRequest, how: Deleting, node: str, state_dir: str) -> None:
    """Delete objects of the fleet, pods only on this node; "" = on all. Raises BadInput, Failure."""
    things = fleet.run(
        lambda client: delete(FleetThings(client, node, force=how.force), request, how), state_dir=state_dir
    )
    if not things:
        remark("No resources found")


def set_nodes_schedulable(names: Sequence[str], change: Change, state_dir: str) -> None:
    """Cordon or uncordon nodes of the fleet.

    Raises BadInput, and Failure, also if an uncordoned node takes no pods, since it is cordoned on the node itself.
    """

    async def work(client: Client) -> None:
        nodes = FleetNodes(client)
        await set_schedulable(nodes, names, change)
        if change == "uncordon" and nodes.cordoned_there:
            raise Failure("\n".join(map(_cordoned_there, nodes.cordoned_there)))

    fleet.run(work, state_dir=state_dir)


def _cordoned_there(node: str) -> str:
    return (
        f"node {node} still takes no new pods: it is also cordoned on the node itself, until `syncpod uncordon {node}` "
        "on its machine"
    )


def drain_nodes(names: Sequence[str], how: Draining, skip_after: int, state_dir: str) -> None:
    """Drain nodes of the fleet, one after the other. Raises BadInput, Failure.

    A pod that has been ending for longer than `skip_after` seconds is not waited for; 0 = each is.
    """
    fleet.run(lambda client: drain(FleetNodes(client, skip_after), names, how), state_dir=state_dir)
