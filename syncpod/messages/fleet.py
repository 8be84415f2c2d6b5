"""The messages of a fleet: what its cluster asks of a node, and what the node answers.

A node is asked by activities on a task queue that it alone polls: :data:`RECALL_INTENT`, :data:`TAKE_INTENT` and
:data:`ATTEND`. It needs nothing else of the fleet's server, so its certificate may allow nothing else.

The same rules as in :mod:`syncpod.messages`: unknown fields are ignored, every field has a default, names on the wire
are Kubernetes' camelCase. Pods are plain JSON here, and checked strictly where they are taken.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal

from pydantic import Field

from syncpod.messages.fleet_objects import SealedObject
from syncpod.messages.identity import Message, bounded_id
from syncpod.messages.node import NodeAddress, NodeCondition, NodeInfo, PodKey
from syncpod.messages.queries import EventRecord

FLEET_NODE_WORKFLOW: Final = "FleetNode"
"""Workflow type of a node in its fleet: what the node shall run, and what it says of itself."""
FLEET_NODE_PREFIX: Final = "fleet-node/"
FLEET_NODE_MEMO: Final = "fleetNode"
"""Key of the workflow's memo that holds a :class:`FleetNodeSummary`."""
FLEET_QUEUE: Final = "fleet"
"""The task queue of the fleet's own workers."""
OWNER_ANNOTATION: Final = "syncpod.dev/fleet-owner"
"""The workflow that owns a placed pod. It goes to the node with the pod, so that a fleet that has lost its database
learns it from there."""
FLEET_SOURCE: Final = "fleet"
"""The source of pods that a fleet is, in ``sync_pods`` and in the annotation ``kubernetes.io/config.source``."""

RECALL_INTENT: Final = "recall_intent"
"""Activity: what the node was last given. It takes :class:`WhoAsks` and returns :class:`Intent`."""
TAKE_INTENT: Final = "take_intent"
"""Activity: what the node shall run. It takes :class:`Intent` and returns :class:`IntentTaken`."""
ATTEND: Final = "attend"
"""Activity: wait for a change. It takes :class:`Attend` and returns :class:`Attended`. Its heartbeats are the node's
presence."""

HEARTBEAT_SECONDS: Final = 10.0
"""Pause between two heartbeats of a node: a kubelet's nodeStatusUpdateFrequency."""
GRACE_SECONDS: Final = 50.0
"""How long a node may be silent before it counts as Unknown: the node-monitor-grace-period of a cluster."""
ATTEND_SECONDS: Final = 600.0
"""The longest that one ``attend`` waits for a change."""
COALESCED_SECONDS: Final = 1.0
"""How long a node collects further changes before it reports the first to its fleet."""

STALE_INTENT: Final = "StaleIntent"
"""Type of the failure of a node that has taken a newer list before."""
FOREIGN_INTENT: Final = "ForeignIntent"
"""Type of the failure of a node that is not the one asked, or belongs to another fleet."""


def fleet_node_id(node: str) -> str:
    """Return the workflow id of a node in its fleet, ``fleet-node/<name>``: also the task queue that the node polls."""
    return bounded_id(FLEET_NODE_PREFIX, node)


# --- what a node is asked ---------------------------------------------------------------------------------------------


class WhoAsks(Message):
    """Which fleet asks which node: a node answers its own fleet alone."""

    fleet: str = ""
    node: str = ""


class Intent(WhoAsks):
    """All pods that a fleet wants on a node."""

    generation: int = 0
    """Grows with each change. A node takes none that is older than what it has; 0 = it was never given any."""
    pods: tuple[dict[str, Any], ...] = ()
    """v1 Pods."""
    objects: tuple[SealedObject, ...] = ()
    """The fleet's ConfigMaps and Secrets that the pods refer to, sealed for the node."""


class IntentTaken(Message):
    """A node's answer to an intent: it is on the node's disk, and the node's own workflow has it."""

    generation: int = 0
    refused: dict[str, str] = Field(default_factory=dict)
    """By ``namespace/name``: why a pod cannot run on any node, in one sentence."""
    objects: dict[str, str] = Field(default_factory=dict)
    """By ``kind/namespace/name``: why the node cannot keep an object, in one sentence."""


class Attend(WhoAsks):
    """What the fleet knows of a node."""

    version: str = ""
    """Of the last report that the fleet has; "" = it has none. A node that does not know it reports everything."""


class NodeReport(Message):
    """What a node says of itself, as its own workflow has it."""

    ready: bool = False
    unschedulable: bool = False
    """Cordoned on the node itself."""
    conditions: tuple[NodeCondition, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    capacity: dict[str, str] = Field(default_factory=dict)
    allocatable: dict[str, str] = Field(default_factory=dict)
    """Quantities as Kubernetes writes them, less what pods from other sources request on the node."""
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()


class PodReport(Message):
    """What a node says of one pod of its fleet."""

    namespace: str = "default"
    name: str = ""
    uid: str = ""
    phase: str = "Pending"
    status: str = ""
    """kubectl's STATUS: ``Running``, ``CrashLoopBackOff``."""
    ready: bool = False
    ready_since: datetime | None = None
    ready_containers: str = "0/0"
    """kubectl's READY."""
    restarts: int = 0
    ip: str = ""
    started_at: datetime | None = None
    message: str = ""
    """Why it does not run, in one sentence; "" if it does, or nobody knows."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Attended(Message):
    """What has changed on a node since the version that the fleet has."""

    version: str = ""
    """Of this report."""
    generation: int = 0
    """The newest intent that the node had taken when it made the report."""
    present: tuple[PodKey, ...] | None = None
    """All pods of the fleet that the node has or may have; None = no other than those in the report before, without
    `gone`."""
    node: NodeReport | None = None
    """None = as before."""
    pods: tuple[PodReport, ...] = ()
    """Those of which the fleet does not know the newest."""
    gone: tuple[PodKey, ...] = ()
    """Pods that are no longer on the node."""


# --- what a fleet's node takes and shows ------------------------------------------------------------------------------


class Place(Message):
    """Update ``place``: run these pods on the node, or change them."""

    owner: str = ""
    """Id of the workflow that is signalled when one of them changes; "" = nobody is."""
    pods: tuple[Any, ...] = ()
    """v1 Pods."""


class Withdraw(Message):
    """Update ``withdraw``: the node shall end these pods."""

    pods: tuple[PodKey, ...] = ()
    reason: str = ""
    force: bool = False
    """Do not wait for the node's word that they are gone: others may take their places at once, beside pods that run
    on, if the node does."""


Presence = Literal["Joining", "Ready", "NotReady", "Unknown"]
"""``Joining``: the node has not spoken yet. ``Unknown``: it has fallen silent; what runs there is not known."""


class PlacedPod(Message):
    """One pod that a fleet wants on a node, or that is ending there."""

    namespace: str = "default"
    name: str = ""
    owner: str = ""
    state: Literal["placed", "taken", "refused", "ending"] = "placed"
    """``placed``: the node is not told yet. ``ending``: it is withdrawn, and the node still has it."""
    why: str = ""
    """Why the node refuses it, or why it was withdrawn."""
    report: PodReport | None = None
    """The node's last word; None = it has said nothing of it."""
    revision: str = ""
    """What its workload's template is called; "" if it was made of none, or is ending."""
    containers: int = 0
    """How many of its containers are to be ready, if the node has said nothing of it."""


class FleetNodeSummary(Message):
    """The contents of the memo: enough to list nodes and to place pods, without asking each node's workflow."""

    name: str = ""
    presence: Presence = "Joining"
    since: datetime | None = None
    """Since when the presence is what it is."""
    unschedulable: bool = False
    """Cordoned, in the fleet or on the node itself."""
    draining: bool = False
    """Its pods are to run elsewhere, until it is uncordoned."""
    joined: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    allocatable: dict[str, str] = Field(default_factory=dict)
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()
    pods: int = 0
    """How many pods the fleet wants there."""


class FleetNodeView(FleetNodeSummary):
    """Query ``fleet_node``: a node as its fleet has it."""

    fleet: str = ""
    generation: int = 0
    taken: int = 0
    """The newest generation that the node has taken."""
    conditions: tuple[NodeCondition, ...] = ()
    capacity: dict[str, str] = Field(default_factory=dict)
    placed: tuple[PlacedPod, ...] = ()
    """In order of namespace and name."""
    events: tuple[EventRecord, ...] = ()
    """Oldest first."""


class PodsChanged(Message):
    """Signal ``pods_changed`` to the owner of pods: what is new of them on one node."""

    node: str = ""
    presence: Presence = "Joining"
    draining: bool = False
    """The node's pods are to run elsewhere."""
    pods: tuple[PlacedPod, ...] = ()
    gone: tuple[PodKey, ...] = ()
