"""The messages of a workload: a Deployment, a DaemonSet or a Pod that a fleet keeps on its nodes.

The same rules as in :mod:`syncpod.messages`: unknown fields are ignored, every field has a default, names on the wire
are Kubernetes' camelCase. Documents are plain JSON here, and checked strictly where they are taken.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pydantic import Field

from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.revisions import Revision
from syncpod.messages.fleet import PodsChanged
from syncpod.messages.identity import Message
from syncpod.messages.node import PodKey
from syncpod.messages.queries import EventRecord

WORKLOAD_WORKFLOW: Final = "Workload"
"""Workflow type of one workload, whose id is ``workload/<kind>/<namespace>/<name>``."""
WORKLOAD_MEMO: Final = "workload"
"""Key of the workflow's memo that holds a :class:`WorkloadSummary`."""

SURVEY_NODES: Final = "survey_nodes"
"""Activity of the fleet: what its nodes offer. It takes :class:`Survey` and returns :class:`Surveyed`."""
PLACE_PODS: Final = "place_pods"
"""Activity of the fleet: have a node run pods. It takes :class:`PlacePods` and returns :class:`PodsPlaced`."""
WITHDRAW_PODS: Final = "withdraw_pods"
"""Activity of the fleet: have a node end pods. It takes :class:`WithdrawPods` and returns :class:`PodsWithdrawn`."""


class Survey(Message):
    """The pods for which nodes are looked at."""

    owner: str = ""
    """Id of the workload's workflow."""
    pods: tuple[dict[str, Any], ...] = ()
    """v1 Pods, one of each template: what matters to none of them is left out of the answer."""


class OwnPods(Message):
    """Pods of a workload that a node is to run, as the fleet has them."""

    news: PodsChanged = PodsChanged()
    revisions: dict[str, str] = Field(default_factory=dict)
    """By name of the pod: what its template is called."""


class Surveyed(Message):
    """What the fleet's nodes offer."""

    nodes: tuple[NodeOffer, ...] = ()
    """By name."""
    own: tuple[OwnPods, ...] = ()
    """The workload's own pods, for each node that has any."""


class PlacePods(Message):
    """Pods that are to run on one node."""

    node: str = ""
    owner: str = ""
    pods: tuple[dict[str, Any], ...] = ()


class PodsPlaced(Message):
    """A node's answer: it shall run all of the pods, or none."""

    refused: str = ""
    """Why it shall run none, in one sentence; "" if it shall run them."""


class WithdrawPods(Message):
    """Pods that are to end on one node."""

    node: str = ""
    pods: tuple[PodKey, ...] = ()
    reason: str = ""


class PodsWithdrawn(Message):
    """Which of the pods may still be there."""

    ending: tuple[PodKey, ...] = ()


class Undo(Message):
    """Update ``undo``: ask for the template of an earlier revision again."""

    to_revision: int = 0
    """Its number; 0 = the one before the newest."""


class Undone(Message):
    """Which revision's template is asked for."""

    revision: int = 0
    template: str = ""
    skipped: bool = False
    """It was asked for already."""


class WorkloadPod(Message):
    """One pod of a workload."""

    name: str = ""
    node: str = ""
    revision: str = ""
    status: str = ""
    ready: bool = False
    restarts: int = 0
    leaving: bool = False
    why: str = ""
    """Why it is to go, or why it is nowhere yet."""


class PendingPod(Message):
    """A pod that is on no node."""

    name: str = ""
    created: datetime | None = None
    why: str = ""
    """As kube-scheduler says it; "" if it has not been tried yet."""
    containers: int = 0
    """How many of its containers are to be ready."""


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
    revision: str = ""
    """The template that is rolled out: after a way back, the last good one."""
    good: str = ""
    """The last good template; "" = there is none yet."""
    says: str = ""
    """How the rollout stands, in one sentence."""
    since: datetime | None = None
    """When it was applied first."""
    pending: tuple[PendingPod, ...] = ()
    """The first of the pods that are on no node."""


class WorkloadView(WorkloadSummary):
    """Query ``workload``: the whole of it."""

    document: dict[str, Any] | None = None
    """As it was admitted, with its defaults."""
    pods: tuple[WorkloadPod, ...] = ()
    history: tuple[Revision, ...] = ()
    """Which templates were asked for, oldest first."""
    refusals: tuple[str, ...] = ()
    """Why the pod that was tried last is on no node, a line for each node: what ``explain --placement`` prints."""
    events: tuple[EventRecord, ...] = ()
    """Oldest first."""
