"""The messages of a workload: a Deployment, a DaemonSet or a Pod that a fleet keeps on its nodes.

The rules of :mod:`syncpod.messages` apply: unknown fields are ignored, every field has a default, names on the wire are
Kubernetes' camelCase. Documents are plain JSON here, and are checked strictly where they are taken.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pydantic import Field, StrictInt

from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.revisions import Revision
from syncpod.messages.fleet import PodsChanged
from syncpod.messages.identity import Message
from syncpod.messages.node import PodKey
from syncpod.messages.queries import WireEvent
from syncpod.pod.wire import Flag

WORKLOAD_WORKFLOW: Final = "Workload"
"""Workflow type of one workload, whose id is ``workload/<kind>/<namespace>/<name>``."""
WORKLOAD_MEMO: Final = "workload"
"""Key of the workflow's memo that holds a :class:`WorkloadSummary`."""

SURVEY_NODES: Final = "survey_nodes"
"""Activity of the fleet: return the offers of its nodes. It takes :class:`Survey` and returns :class:`Surveyed`."""
PLACE_PODS: Final = "place_pods"
"""Activity of the fleet: make a node run pods. It takes :class:`PlacePods` and returns :class:`PodsPlaced`."""
WITHDRAW_PODS: Final = "withdraw_pods"
"""Activity of the fleet: make a node end pods. It takes :class:`WithdrawPods` and returns :class:`PodsWithdrawn`."""

ANNOUNCE_ROOM: Final = "announce_room"
"""Activity of the fleet: signal ``room`` to each workload with pods that wait for a node, and to each DaemonSet. It
takes :class:`Room`."""


class Room(Message):
    """A node takes new pods now: it has joined, is back, or was uncordoned."""

    node: str = ""


class Survey(Message):
    """A request for the nodes' offers, for these pods."""

    owner: str = ""
    """The id of the workload's workflow."""
    pods: tuple[dict[str, Any], ...] = ()
    """v1 Pods, one for each template. The answer leaves out details that matter to none of them."""
    nodes: tuple[str, ...] = ()
    """Survey only these nodes; empty = all."""


class HostedPods(Message):
    """A node's pods of one workload, by the fleet's record."""

    news: PodsChanged = PodsChanged()
    revisions: dict[str, str] = Field(default_factory=dict)
    """The revision of the template of each pod, by the pod's name."""


class Surveyed(Message):
    """The offers of the fleet's nodes."""

    nodes: tuple[NodeOffer, ...] = ()
    """The offers, sorted by the node's name."""
    own: tuple[HostedPods, ...] = ()
    """The workload's pods, for each node that has any."""
    missed: tuple[str, ...] = ()
    """Nodes whose workflows did not report the workload's pods, sorted. In `own`, their pods are Unknown; if not even a
    node's list could be read, its pods are missing there."""
    unseen: tuple[str, ...] | None = None
    """The other nodes of the fleet, which offer nothing yet: they are joining, or their workflows did not answer. None:
    an earlier version made the survey, and a node that it does not name may be in the fleet."""
    unread: tuple[str, ...] | None = None
    """Those of `unseen` that have joined, but whose lists could not be read. None: an earlier version made the
    survey."""


class PlacePods(Message):
    """Pods to run on one node."""

    node: str = ""
    owner: str = ""
    pods: tuple[dict[str, Any], ...] = ()
    adopted: bool = False
    """The node has these pods already, and the workload has adopted them."""


class PodsPlaced(Message):
    """A node's answer: it will run all of the pods, or none."""

    refused: str = ""
    """Why the node will run none of the pods, in one sentence; "" if it will run all of them."""


class WithdrawPods(Message):
    """Pods to end on one node."""

    node: str = ""
    pods: tuple[PodKey, ...] = ()
    reason: str = ""


class PodsWithdrawn(Message):
    """The pods that may still be on the node."""

    ending: tuple[PodKey, ...] = ()


class Undo(Message):
    """Update ``undo``: apply the template of an earlier revision again."""

    to_revision: StrictInt = 0
    """The number of the revision; 0 = the newest earlier one that was not rolled back."""
    template: str = ""
    """The revision's template, in place of its number: with it, a repeat of the update changes nothing."""


class Undone(Message):
    """The answer to ``undo``: the revision whose template is wanted now."""

    revision: int = 0
    template: str = ""
    skipped: bool = False
    """The template was already the wanted one."""


class RolloutRestart(Message):
    """Update ``restart``: replace all pods, as in the rollout of another template."""

    at: str = ""
    """When the restart was requested, RFC 3339. A repeat of the update with the same time changes nothing."""


class Pause(Message):
    """Update ``pause``: pause the workload's rollouts, or resume them."""

    paused: Flag = True


class PendingPod(Message):
    """One pod of a workload in short. The memo lists those that are on no node."""

    name: str = ""
    created: datetime | None = None
    why: str = ""
    """Why it is on no node yet, in kube-scheduler's words; "" if placement has not been tried yet."""
    containers: int = 0
    """How many of its containers should be ready."""
    node: str = ""
    """The node that it must be on; "" = any."""


class WorkloadPod(PendingPod):
    """One pod of a workload in full. `node` is its chosen node, and `why` may also be the reason for its removal."""

    revision: str = ""
    status: str = ""
    ready: bool = False
    restarts: int = 0
    leaving: bool = False
    bound: str = ""
    """The node that it must be on; "" = any."""
    replaced_at: datetime | None = None
    """When another pod may replace it, unless its node is back before; None = its node is not lost, or the rule is to
    wait."""
    replaced_by: str = ""
    """The pod that has replaced it while its node is lost, and that pod's node: ``web-5 on n2``; "" = none."""


class WorkloadSummary(Message):
    """The contents of the memo: enough to list workloads."""

    kind: str = ""
    namespace: str = "default"
    name: str = ""
    desired: int = 0
    replicas: int = 0
    updated: int = 0
    ready: int = 0
    available: int = 0
    misscheduled: int = 0
    """How many pods of a DaemonSet are on nodes that should have none. They count in no other number."""
    revision: str = ""
    """The template that is being rolled out; after a rollback, the last good one."""
    good: str = ""
    """The last good template; "" = there is none yet."""
    says: str = ""
    """The state of the rollout, in one sentence."""
    observed: bool = False
    """The numbers are those of the newest document."""
    stalled: str = ""
    """Why the rollout counts as stuck; "" if it does not."""
    paused: bool = False
    """Its rollouts are paused."""
    since: datetime | None = None
    """When it was first applied."""
    pending: tuple[PendingPod, ...] = ()
    """The first pods that are on no node."""


class WorkloadView(WorkloadSummary):
    """Query ``workload``: the whole workload."""

    complete: bool = False
    """The pods of all nodes that can be reached have its template, and are available."""
    deleting: bool = False
    """It ends once its last pod is gone, and takes no document any more."""
    document: dict[str, Any] | None = None
    """The document as admitted, with its defaults."""
    missed: tuple[str, ...] = ()
    """Nodes that have not reported yet which pods of the workload they have. The workload does not end before that."""
    pods: tuple[WorkloadPod, ...] = ()
    history: tuple[Revision, ...] = ()
    """The revisions of the workload, oldest first."""
    refusals: tuple[str, ...] = ()
    """Why the pod that was tried last fits no node, with a line for each node as in ``explain --placement``."""
    events: tuple[WireEvent, ...] = ()
    """The events of the workload, oldest first."""
