"""The one table of the signals, updates and queries that a node's workflow takes.

A new command needs its payload in `syncpod.messages.node`, its row here, and its effect in `workflows.node.absorb`.
"""

from __future__ import annotations

from typing import Final

from syncpod.messages.command_table import RENEW, QuerySpec, Sender, SignalSpec, UpdateSpec, command_table
from syncpod.messages.node import ApplyToNode, Cordon, DeleteFromNode, NodeStatus, RecallPods, StaticPods, SyncPods

_APPLY: Final = '{"pod": <v1 Pod>}'
_NODE: Final = '`{"name": "…", "unschedulable": false}`'

SYNC_PODS: Final = SignalSpec(
    "sync_pods",
    SyncPods,
    "All pods of one source, as v1 Pods. A pod of the source that the list omits is ended",
    Sender.PROGRAM,
)
STATIC_PODS: Final = SignalSpec(
    "static_pods",
    StaticPods,
    "The pods that the node runs for its manifest directory. This report changes no pod",
    Sender.AGENT,
)
RECALL_PODS: Final = SignalSpec("recall_pods", RecallPods, "Pods that were made for lists", Sender.AGENT)
APPLY_LATER: Final = SignalSpec("apply", ApplyToNode, "Make or change one pod", form=_APPLY, same_as="apply")
DELETE_LATER: Final = SignalSpec("delete", DeleteFromNode, "End one pod that was applied by itself", same_as="delete")
NODE_STATUS: Final = SignalSpec("node_status", NodeStatus, "The state of the node", Sender.AGENT, is_resent=True)

APPLY: Final = UpdateSpec(
    "apply", ApplyToNode, "Make or change one pod; the pod's workflow gets the order next", form=_APPLY, answer=_NODE
)
DELETE: Final = UpdateSpec(
    "delete", DeleteFromNode, "End one pod that was applied by itself; its workflow gets the order next", answer=_NODE
)
SYNC_PODS_NOW: Final = UpdateSpec(
    "sync_pods", SyncPods, "All pods of one source, as with the signal", Sender.PROGRAM, answer="nothing"
)
CORDON: Final = UpdateSpec(
    "cordon",
    Cordon,
    "Take no new pods except from lists; existing pods keep running",
    answer=_NODE,
    is_optional=True,
)
UNCORDON: Final = UpdateSpec("uncordon", Cordon, "Take new pods again", answer=_NODE, is_optional=True)

NODE: Final = QuerySpec(
    "node", "The whole node: desired pods with their states, conditions, capacity, sources and events"
)

NODE_COMMANDS: Final = command_table(
    SYNC_PODS,
    STATIC_PODS,
    RECALL_PODS,
    APPLY_LATER,
    DELETE_LATER,
    NODE_STATUS,
    RENEW,
    APPLY,
    DELETE,
    SYNC_PODS_NOW,
    CORDON,
    UNCORDON,
    NODE,
)
"""Every signal, update and query of a node, by its name."""
