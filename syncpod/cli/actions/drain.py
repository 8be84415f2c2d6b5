"""Cordons, uncordons and drains nodes of this machine's Temporal server; `maintenance` has the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncpod.cli import maintenance
from syncpod.cli.temporal import session
from syncpod.cli.temporal.own_nodes import OwnNodes

if TYPE_CHECKING:
    from syncpod.api.label_selector import Selector


def change_nodes(names: Sequence[str], change: maintenance.Change) -> None:
    """Cordon or uncordon nodes, and print each. Raises Failure, before any is changed if one does not exist."""
    session.run(lambda client: maintenance.set_schedulable(OwnNodes(client), names, change))


def drain_nodes(names: Sequence[str], pods: Selector, grace: int | None, how: maintenance.Draining) -> None:
    """Cordon nodes, end those of their pods that `pods` selects, and print each.

    `grace` is the pods' grace period in seconds, None = each pod's own. Raises Failure if a pod must not be ended, or
    has not ended in time.
    """
    session.run(lambda client: maintenance.drain(OwnNodes(client, pods, grace), names, how))
