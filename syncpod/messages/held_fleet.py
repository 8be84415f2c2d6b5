"""Finds the fleet that a Temporal namespace holds: each payload in the memos of its workflows names its fleet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from syncpod.messages.encryption import FLEET, is_of_another_fleet
from syncpod.messages.fleet import FLEET_NODE_WORKFLOW
from syncpod.messages.fleet_objects import FLEET_OBJECT_WORKFLOW
from syncpod.messages.workload import WORKLOAD_WORKFLOW

LOOKED_AT: Final = 50
"""The most workflows that are read to find the fleet of a namespace; nearly always the first one names it."""
HELD_QUERY: Final = (
    f"WorkflowType IN ('{FLEET_NODE_WORKFLOW}', '{WORKLOAD_WORKFLOW}', '{FLEET_OBJECT_WORKFLOW}') "
    "AND ExecutionStatus = 'Running'"
)
"""Lists the workflows that name the fleet. A fleet is found once its worker has served the first of these workflows."""


def held_fleet(own: str, said: Iterable[Mapping[str, bytes]]) -> str:
    """Return the id of the fleet that a namespace holds: `own` if any payload names it; "" if none names a fleet.

    `said` is the metadata of the payloads in the memos of its workflows.
    """
    held = ""
    for metadata in said:
        if is_of_another_fleet(own, metadata):
            held = metadata[FLEET].decode(errors="replace")
        elif FLEET in metadata:
            return own
    return held


def holds_another(namespace: str, other: str, own: str) -> str:
    """Return the sentence that refuses a namespace which holds another fleet."""
    return (
        f"namespace {namespace} of the server holds fleet {other}, and the keys here are of fleet {own}: "
        "use the state directory of that fleet, or a namespace or a server of its own for each fleet"
    )
