"""The work of ``syncpod cordon`` and ``uncordon``: set whether nodes take new pods."""

from __future__ import annotations

from syncpod.cli import maintenance
from syncpod.cli.input.arguments import node_names
from syncpod.cli.temporal import session
from syncpod.cli.temporal.own_nodes import OwnNodes


def change_nodes(words: list[str], change: maintenance.Change) -> None:
    """Cordon or uncordon nodes. Raises BadInput, Failure."""
    names = node_names(words)
    session.run(lambda client: maintenance.set_schedulable(OwnNodes(client), names, change))
