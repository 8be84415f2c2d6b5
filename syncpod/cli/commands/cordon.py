"""``syncpod cordon`` and ``syncpod uncordon``: set whether a node takes new pods."""

from __future__ import annotations

from syncpod.cli.input.arguments import node_names
from syncpod.cli.input.options import NodeNames
from syncpod.cli.maintenance import Change, set_schedulable


def cordon(nodes: NodeNames) -> None:
    """Mark a node as unschedulable: it takes no new pods.

    Its pods keep running, also across restarts of the node, and so do those of its manifest directory.
    """
    _change(nodes, "cordon")


def uncordon(nodes: NodeNames) -> None:
    """Mark a node as schedulable: it takes new pods again."""
    _change(nodes, "uncordon")


def _change(words: list[str], change: Change) -> None:
    from syncpod.cli.temporal import session
    from syncpod.cli.temporal.own_nodes import OwnNodes

    names = node_names(words)
    session.run(lambda client: set_schedulable(OwnNodes(client), names, change))
