"""Which named nodes do not exist, since a node without pods is in no answer about pods."""

from __future__ import annotations

from collections.abc import Sequence

from syncpod.api.client import NOT_FOUND
from syncpod.cli.machine.settings import settings
from syncpod.cli.node_api import NodeApi
from syncpod.settings.membership import read_membership


def missing_nodes(names: Sequence[str]) -> list[str]:
    """Return those of these nodes that do not exist. Raises Failure."""
    with NodeApi() as api:
        return [name for name in names if api.get(f"/api/v1/nodes/{name}", read=lambda reply: reply.code == NOT_FOUND)]


def fleet_hint() -> str:
    """Return a clause with the command for the fleet's other nodes; "" if this machine's node is part of no fleet."""
    if read_membership(settings().state_dir) is None:
        return ""
    return "; `syncpod fleet get pods -o wide`, where the fleet is served, lists the pods of its other nodes"
