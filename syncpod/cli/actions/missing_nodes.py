"""Which named nodes do not exist, from the Temporal server, since a node without pods is in no answer about pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncpod.cli.machine.settings import settings
from syncpod.cli.temporal import session
from syncpod.cli.temporal.nodes import read_node
from syncpod.settings.membership import read_membership

if TYPE_CHECKING:
    from temporalio.client import Client


def missing_nodes(names: Sequence[str]) -> list[str]:
    """Return those of these nodes that do not exist. Raises Failure."""

    async def work(client: Client) -> list[str]:
        return [name for name in names if await read_node(client, name) is None]

    return session.run(work)


def fleet_hint() -> str:
    """Return a clause with the command for the fleet's other nodes; "" if this machine's node is part of no fleet."""
    if read_membership(settings().state_dir) is None:
        return ""
    return "; `syncpod fleet get pods -o wide`, where the fleet is served, lists the pods of its other nodes"
