"""The messages between a fleet's cluster and its nodes.

The fleet's requests to a node are activities on a task queue that only this node polls: :data:`RECALL_INTENT`,
:data:`TAKE_INTENT`, :data:`ATTEND` and :data:`syncpod.messages.remote_command.RUN_REMOTE_COMMAND`. A node needs nothing
else from the fleet's server, so its certificate allows nothing else.

The rules of :mod:`syncpod.messages` apply: unknown fields are ignored, every field has a default, names on the wire are
Kubernetes' camelCase. Pods are plain JSON here, and are checked strictly where they are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import AwareDatetime, Field

from syncpod.messages.fleet_objects import SealedKey, SealedObject
from syncpod.messages.identity import Message, bounded_id
from syncpod.messages.node import SOURCE_ANNOTATION, NodeAddress, NodeCondition, NodeInfo, PodKey
from syncpod.messages.queries import WireEvent
from syncpod.pod.origin import FLEET_SOURCE as FLEET_SOURCE
from syncpod.pod.wire import Flag, ForeignText, shortened

FLEET_NODE_WORKFLOW: Final = "FleetNode"
"""Workflow type of a node in its fleet. It holds the pods that the node should run, and the node's reports."""
FLEET_NODE_PREFIX: Final = "fleet-node/"
FLEET_NODE_MEMO: Final = "fleetNode"
"""Key of the workflow's memo that holds a :class:`FleetNodeSummary`."""
FLEET_QUEUE: Final = "fleet"
"""The task queue of the fleet's own workers."""
OWNER_ANNOTATION: Final = "syncpod.dev/fleet-owner"
"""The annotation with the workflow that owns a placed pod. It goes to the node with the pod, so that a fleet that has
lost its database can read the owner from there."""

RECALL_INTENT: Final = "recall_intent"
"""Activity: return the list that the node was last given. It takes :class:`WhoAsks` and returns :class:`Intent`."""
TAKE_INTENT: Final = "take_intent"
"""Activity: run these pods. It takes :class:`Intent` and returns :class:`IntentTaken`."""
ATTEND: Final = "attend"
"""Activity: wait for a change. It takes :class:`Attend` and returns :class:`Attended`. Its heartbeats show that the
node is present."""

HEARTBEAT_SECONDS: Final = 10.0
"""Pause between two heartbeats of a node: a kubelet's nodeStatusUpdateFrequency."""
GRACE_SECONDS: Final = 50.0
"""How long a node may be silent before it counts as Unknown: the node-monitor-grace-period of a cluster."""
MESSAGE_LIMIT: Final = 256
"""The approximate limit, in bytes of JSON, of the part of a pod's message that is sent to the pod's owner."""
WORD_LIMIT: Final = 64
"""The same limit for a pod's phase and its status. The longest known ones are half as long."""
MOST_RESTARTS: Final = 2**31 - 1
ATTEND_SECONDS: Final = 600.0
"""The longest that one ``attend`` waits for a change."""
LIFE_LIMIT: Final = 64
"""The most characters of the id of a worker's life."""
MACHINE_LIMIT: Final = 100
"""The most characters that the fleet keeps of a machine's name and address."""
COALESCED_SECONDS: Final = 1.0
"""How long a node collects further changes before it reports the first one to its fleet."""

STALE_INTENT: Final = "StaleIntent"
"""Error type of a node that already has a newer list."""
FOREIGN_INTENT: Final = "ForeignIntent"
"""Error type of a node that the request does not name, or that belongs to another fleet."""


def fleet_node_id(node: str) -> str:
    """Return the workflow id of a node in its fleet, ``fleet-node/<name>``: also the task queue that the node polls."""
    return bounded_id(FLEET_NODE_PREFIX, node)


def is_placed(annotations: Mapping[str, str]) -> bool:
    """Return whether these are the annotations of a pod whose node the fleet has chosen.

    Such annotations name an owner. The annotations of a pod that was applied with a `nodeName` name none.
    """
    return annotations.get(SOURCE_ANNOTATION) == FLEET_SOURCE and bool(annotations.get(OWNER_ANNOTATION))


def dismissal(node: str) -> str:
    """Return the sentence by which the gate refuses all calls of a node that was removed from the fleet.

    A node that gets exactly this answer ends the pods that the fleet gave it, so only the gate itself may send it.
    """
    return f"node {node} was removed from the fleet, and its pods there were replaced or given up"


MACHINE_HEADER: Final = "syncpod-machine"
"""Metadata of a node's call to the gate: the proof that its machine is the one that has used the invitation."""


def used_elsewhere(node: str) -> str:
    """Return the sentence by which the gate refuses all calls of a second machine with one invitation."""
    return (
        f"the invitation was used on another machine before, or with another state directory: each machine needs its "
        f"own, so run `syncpod fleet invite {node}` again if this is the one that is to be node {node}"
    )


# --- requests to a node, and its answers ------------------------------------------------------------------------------


class WhoAsks(Message):
    """The fleet that sends a request, and the node that gets it. A node answers only its own fleet."""

    fleet: str = ""
    node: str = ""


class Intent(WhoAsks):
    """All pods that a fleet wants on a node."""

    generation: int = 0
    """Grows with each change. A node never accepts an older list than the one it has. 0 = none was ever sent."""
    stamp: int = 0
    """When the fleet sent the list, in microseconds since 1970: no two lists of a node have the same stamp. 0 = the
    node made the list itself, when it was removed."""
    taken: int = 0
    """The highest generation that the node had accepted, by the fleet's record, when the list was sent."""
    after: tuple[int, ...] = ()
    """The stamps of the lists that the fleet has recorded since generation `taken`: this list comes after them. A node
    refuses this list if the node's own list is newer than `taken` and that list's stamp is not in `after`. In that case
    the fleet's database was restored from a backup."""
    pods: tuple[dict[str, Any], ...] = ()
    """v1 Pods."""
    objects: tuple[SealedObject, ...] = ()
    """The fleet's ConfigMaps and Secrets that the pods refer to, sealed for the node."""
    key: SealedKey | None = None
    """The key that the fleet uses, if the node trusts an earlier one; else None."""


class Spoken(Message):
    """The sender of an answer. Two machines with one invitation both answer as the same node."""

    life: str = ""
    """A random id of the worker's life, another one after each start; "" = none is sent."""
    machine: str = ""
    """The machine's own host name and its address, for people: ``rack-7 (10.0.0.7)``; "" = none is sent."""


class IntentTaken(Spoken):
    """A node's answer to an intent, sent once the intent is on the node's disk and in the node's own workflow."""

    generation: int = 0
    refused: dict[str, ForeignText] = Field(default_factory=dict)
    """By ``namespace/name``: why a pod cannot run on any node, in one sentence."""
    objects: dict[str, ForeignText] = Field(default_factory=dict)
    """By ``kind/namespace/name``: why the node cannot keep an object, in one sentence."""
    key: str = ""
    """Why the node does not accept the fleet's key, in one sentence; "" if it does, or was sent none."""


class Attend(WhoAsks):
    """A request for the changes since the report that the fleet has."""

    version: str = ""
    """The version of the fleet's last report; "" = it has none. A node without a record of this version reports
    everything."""
    seconds: float = ATTEND_SECONDS
    """The longest to wait for a change; never more than :data:`ATTEND_SECONDS`."""
    taken: int = 0
    """The generation of the newest intent, which the node had taken before this request; 0 = a newer one is on its
    way."""


class FleetNodeReport(Message):
    """A node's report of itself, from its own workflow."""

    ready: bool = False
    unschedulable: bool = False
    """It is cordoned on the node itself."""
    conditions: tuple[NodeCondition, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    capacity: dict[str, str] = Field(default_factory=dict)
    allocatable: dict[str, str] = Field(default_factory=dict)
    """Quantities as Kubernetes writes them, less the requests of the node's pods from other sources."""
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()
    endpoint: str = ""
    """Where the node serves clients that command its fleet, ``host:port``; "" = nowhere."""
    key: str = ""
    """A digest of the public key that its objects must be sealed for; "" = not reported."""
    fleet_key: str = ""
    """The id of the fleet's sealing key that the node trusts, and seals its answers for; "" = not reported."""
    unenforced_limits: tuple[ForeignText, ...] = ()
    """The resources whose limits its runtime cannot enforce, as ``memory``; ``hugepages`` stands for all sizes. A pod
    with such a limit never runs there."""
    images: tuple[str, ...] | None = None
    """On an embedded runtime, which pulls no images: the full names of the images that have files of their own. None =
    the node has another runtime, or does not report them."""


class PodReport(Message):
    """A node's report of one pod of its fleet."""

    namespace: str = "default"
    name: str = ""
    uid: str = ""
    phase: str = "Pending"
    status: str = ""
    """kubectl's STATUS: ``Running``, ``CrashLoopBackOff``."""
    ready: bool = False
    ready_since: AwareDatetime | None = None
    ready_containers: str = "0/0"
    """kubectl's READY."""
    restarts: int = 0
    ip: str = ""
    started_at: AwareDatetime | None = None
    message: ForeignText = ""
    """Why it does not run, in one sentence; "" if it does, or if that is not known."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_untaken(self) -> bool:
        """Whether the node could not start the pod yet: it has no containers, only the reason."""
        return (self.status, self.ready_containers) == ("Pending", "0/0") and bool(self.message)

    def brief(self) -> PodReport:
        """Return the report for the pod's owner: a short message, and only the fields that the owner needs.

        An owner keeps the reports of all its pods in one payload, and a stolen node can write much into each.
        """
        return PodReport(
            namespace=self.namespace,
            name=self.name,
            phase=shortened(self.phase, WORD_LIMIT),
            status=shortened(self.status, WORD_LIMIT),
            ready=self.ready,
            restarts=min(self.restarts, MOST_RESTARTS),
            message=shortened(self.message, MESSAGE_LIMIT),
        )


class Attended(Spoken):
    """The changes on a node since the version that the fleet has."""

    version: str = ""
    """The version of this report."""
    generation: int = 0
    """The generation of the newest intent that the node had taken when it made the report."""
    lacks: int = 0
    """The request's `taken` if the node's own intent is older: its disk was restored from a backup. 0 = it is not."""
    present: tuple[PodKey, ...] | None = None
    """All pods of the fleet that the node has or may have; None = the pods of the previous report, without `gone`."""
    node: FleetNodeReport | None = None
    """The node itself; None = unchanged."""
    pods: tuple[PodReport, ...] = ()
    """The pods that have changed since that version."""
    gone: tuple[PodKey, ...] = ()
    """Pods that are no longer on the node."""


# --- updates of a fleet's node, its memo, query and messages ----------------------------------------------------------


class Place(Message):
    """Update ``place``: run these pods on the node, or change them."""

    owner: str = ""
    """The id of the workflow that is signalled when one of the pods changes; "" = none."""
    pods: tuple[Any, ...] = ()
    """v1 Pods."""
    adopted: Flag = False
    """The owner has adopted these pods. A pod that the node claims in exactly this form counts as placed by the owner
    from now on. Nothing else changes: otherwise a node could obtain a Secret by claiming a pod."""


class Withdraw(Message):
    """Update ``withdraw``: end these pods on the node."""

    pods: tuple[PodKey, ...] = ()
    reason: str = ""
    force: Flag = False
    """Do not wait until the node reports them gone, so that they can be replaced at once. If the node still runs, these
    pods run on beside their replacements."""


Presence = Literal["Joining", "Ready", "NotReady", "Unknown"]
"""``Joining``: the node has not reported yet. ``Unknown``: it has fallen silent, and its pods' state is not known."""


class PlacedPod(Message):
    """One pod that a fleet wants on a node, or that is ending there."""

    namespace: str = "default"
    name: str = ""
    owner: str = ""
    state: Literal["placed", "taken", "refused", "ending"] = "placed"
    """``placed``: the node has not taken it yet. ``ending``: it is withdrawn, but the node still has it."""
    why: str = ""
    """Why the node refuses it, or why it was withdrawn."""
    report: PodReport | None = None
    """The node's last report; None = it has not reported the pod yet."""
    revision: str = ""
    """The revision of its workload's template; "" if there is no template, or the pod is ending."""
    containers: int = 0
    """The number of its containers that should be ready; shown until the node reports the pod."""
    recalled: bool = False
    """Only the node itself claims that it was given this pod. The node gets no Secret for such a pod."""
    is_orphan: bool = False
    """The last message about the pod did not reach its owner, since the owner's workflow does not exist. Nobody ends
    the pod."""
    since: datetime | None = None
    """When the fleet placed it on the node; None = it is ending, or the fleet has lost the record of its placement."""
    ending: datetime | None = None
    """When the fleet withdrew it; None = it is not ending."""

    @property
    def is_untaken(self) -> bool:
        """Whether the fleet has placed it, and the node does not have it: another pod may have its name there."""
        if self.report is not None and self.state != "ending":
            return self.report.is_untaken
        return self.state in ("placed", "refused")

    @property
    def refusal(self) -> str:
        """Why the node does not take it, by the node's own answer; "" = the node has not answered, or has it."""
        if self.state == "refused":
            return self.why
        return self.report.message if self.is_untaken and self.report is not None else ""

    def brief(self) -> PlacedPod:
        """Return this record for the pod's owner: without times, and with a short `why` and :meth:`PodReport.brief`."""
        report = self.report.brief() if self.report is not None else None
        times = {"since": None, "ending": None}
        return self.model_copy(update={"report": report, "why": shortened(self.why, MESSAGE_LIMIT), **times})


class FleetNodeSummary(Message):
    """The contents of the memo: enough to list nodes and to place pods without a query to each node's workflow."""

    name: str = ""
    presence: Presence = "Joining"
    since: datetime | None = None
    """When the node's presence last changed."""
    unschedulable: bool = False
    """It is cordoned, in the fleet or on the node itself."""
    draining: bool = False
    """It is being drained, until it is uncordoned."""
    doubled: bool = False
    """Two machines answer as this node. It takes no new pods."""
    joined: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    allocatable: dict[str, str] = Field(default_factory=dict)
    unenforced_limits: tuple[str, ...] = ()
    """The limits that its runtime cannot enforce, as in its report (:class:`FleetNodeReport`)."""
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()
    pods: int = 0
    """How many pods the fleet wants on the node."""
    endpoint: str = ""
    """Where the node itself listens, ``host:port``; "" = nowhere."""
    fleet_key: str = ""
    """The id of the fleet's sealing key that the node trusts, by its last report; "" = not reported."""
    fleet_key_since: datetime | None = None
    """When `fleet_key` replaced another key that the node trusted; None = it has never trusted another."""


class FleetNodeView(FleetNodeSummary):
    """Query ``fleet_node``: a node, with all that its fleet has recorded of it."""

    fleet: str = ""
    removed: bool = False
    """It was removed from the fleet: its workflow is ending, and accepts no updates any more."""
    generation: int = 0
    taken: int = 0
    """The newest generation that the node has accepted."""
    trouble: str = ""
    """Why the node does not answer its fleet as it should, in one sentence; "" if it does."""
    conditions: tuple[NodeCondition, ...] = ()
    capacity: dict[str, str] = Field(default_factory=dict)
    images: tuple[str, ...] | None = None
    """The images of its embedded runtime, as in its report (:class:`FleetNodeReport`)."""
    cordons: tuple[Literal["fleet", "node"], ...] = ()
    """By whom it is cordoned: by its fleet, on the node itself, or both."""
    placed: tuple[PlacedPod, ...] = ()
    """The node's pods, sorted by namespace and name."""
    events: tuple[WireEvent, ...] = ()
    """The events of the node, oldest first."""


class PodsChanged(Message):
    """Signal ``pods_changed`` to the owner of pods: their changes on one node."""

    node: str = ""
    presence: Presence = "Joining"
    draining: bool = False
    """The node is being drained."""
    unschedulable: bool = False
    """The node is cordoned, and takes no new pods."""
    doubled: bool = False
    """Two machines answer as this node, and it takes no new pods."""
    removed: bool = False
    """The node was removed from the fleet."""
    pods: tuple[PlacedPod, ...] = ()
    gone: tuple[PodKey, ...] = ()
