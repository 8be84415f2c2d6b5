"""The tables of the signals, updates and queries that a fleet's workflows take.

The effects are in `workflows.fleet`: `node_changes`, `workload_updates`, `workload_news` and `object`.
"""

from __future__ import annotations

from typing import Any, Final

from syncpod.fleet.workload_traits import TEMPLATED, one_of
from syncpod.messages.command_table import (
    RENEW,
    Copies,
    Nothing,
    QuerySpec,
    Sender,
    SignalSpec,
    UpdateSpec,
    command_table,
)
from syncpod.messages.fleet import Place, PodsChanged, Withdraw
from syncpod.messages.fleet_objects import FleetObjectRef, PutObject
from syncpod.messages.workload import Pause, RolloutRestart, Room, Undo

# --- a node -----------------------------------------------------------------------------------------------------------

KEY_CHANGED: Final = SignalSpec("key_changed", Nothing, "The fleet uses another sealing key")
OBJECT_CHANGED: Final = SignalSpec(
    "object_changed",
    FleetObjectRef,
    "A ConfigMap or a Secret has changed",
    Sender.FLEET_WORKER,
    # A copy only causes the list to be sent again.
    copies=Copies.OBEYED,
)
CORDON: Final = UpdateSpec("cordon", Nothing, "Place no new pods on the node; existing ones keep running")
DRAIN: Final = UpdateSpec(
    "drain", Nothing, "Place no new pods on the node, and have their owners move its existing pods elsewhere"
)
PLACE: Final = UpdateSpec("place", Place, "Run pods on the node for a workload")
REMOVE: Final = UpdateSpec("remove", Nothing, "Remove the node from the fleet")
"""The caller has made sure that the node can do no harm."""
UNCORDON: Final = UpdateSpec("uncordon", Nothing, "Place new pods on the node again")
WITHDRAW: Final = UpdateSpec("withdraw", Withdraw, "End pods on the node")
FLEET_NODE: Final = QuerySpec("fleet_node", "The whole node: presence, pods, capacity and events")
INTENT: Final = QuerySpec("intent", "The list of pods that the node should run")

FLEET_NODE_COMMANDS: Final = command_table(
    KEY_CHANGED, OBJECT_CHANGED, RENEW, CORDON, DRAIN, PLACE, REMOVE, UNCORDON, WITHDRAW, FLEET_NODE, INTENT
)
"""Every signal, update and query of a fleet's node."""

# --- a workload -------------------------------------------------------------------------------------------------------

PODS_CHANGED: Final = SignalSpec(
    "pods_changed", PodsChanged, "The states of pods that have changed", Sender.FLEET_NODE, copies=Copies.JUDGED
)
ROOM: Final = SignalSpec(
    "room",
    Room,
    "A node takes new pods now",
    Sender.FLEET_WORKER,
    # A copy only causes one more survey of the nodes.
    copies=Copies.OBEYED,
)
APPLY: Final = UpdateSpec[dict[str, Any]](
    "apply",
    dict,
    "The desired workload: make it, or change it",
    form=f"an apps/v1 {one_of(TEMPLATED)}, or a v1 Pod",
)
DELETE: Final = UpdateSpec("delete", Nothing, "Remove all pods, and then end this workflow")
PAUSE: Final = UpdateSpec("pause", Pause, "Pause rollouts, or resume them")
ROLLOUT_RESTART: Final = UpdateSpec("restart", RolloutRestart, "Replace all pods, as in a rollout")
UNDO: Final = UpdateSpec("undo", Undo, "Apply an earlier template again")
TEMPLATE: Final = QuerySpec(
    "template", "The template with the revision that is the argument; null if it is no longer kept"
)
WORKLOAD: Final = QuerySpec("workload", "The whole workload: its pods, its rollout and its events")

WORKLOAD_COMMANDS: Final = command_table(
    PODS_CHANGED, RENEW, ROOM, APPLY, DELETE, PAUSE, ROLLOUT_RESTART, UNDO, TEMPLATE, WORKLOAD
)
"""Every signal, update and query of a workload."""

# --- a ConfigMap or a Secret ------------------------------------------------------------------------------------------

DELETE_OBJECT: Final = UpdateSpec("delete", Nothing, "Delete the object, on the nodes too")
PUT: Final = UpdateSpec("put", PutObject, "Keep this content of a ConfigMap or a Secret")
IS_DELETING: Final = QuerySpec("is_deleting", "Whether the object is being deleted")
SEALED: Final = QuerySpec("sealed", "The sealed object; null if it is gone")

FLEET_OBJECT_COMMANDS: Final = command_table(RENEW, DELETE_OBJECT, PUT, IS_DELETING, SEALED)
"""Every signal, update and query of a fleet's object."""
