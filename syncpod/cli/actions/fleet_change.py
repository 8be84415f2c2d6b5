"""The work of ``syncpod fleet apply``, ``cordon``, ``uncordon``: change what a fleet's nodes run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.input.arguments import node_names
from syncpod.cli.maintenance import Change, set_schedulable
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_nodes import FleetNodes

if TYPE_CHECKING:
    pass


def change_nodes(nodes: list[str], change: Change, state_dir: str) -> None:
    """Cordon or uncordon nodes of the fleet. Raises BadInput, Failure."""
    names = node_names(nodes)
    fleet.run(lambda client: set_schedulable(FleetNodes(client), names, change), state_dir=state_dir)
