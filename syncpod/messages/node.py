"""The messages of a node as a whole: its workflow's signals, updates and view, and its steps.

The same rules as in :mod:`syncpod.messages`: every model ignores unknown fields and defaults every field, names on the
wire are Kubernetes' camelCase, times are RFC 3339 strings. A pod that a person or a source hands in is plain JSON here,
and checked strictly where it is taken.

Read in this order: :data:`NODE_WORKFLOW` and :func:`node_workflow_id`, what comes in (:class:`SyncPods`,
:class:`RecallPods`, :class:`ApplyPod`, :class:`DeletePod`, :class:`NodeStatus`), what a query returns
(:class:`NodeView`), what the steps are given and return (:class:`ApplyPodWorkflow`, :class:`DeletePodWorkflow`,
:class:`PodWorkflowResult`).
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import Field

from syncpod.messages.identity import Message, node_task_queue
from syncpod.messages.queries import EventRecord

NODE_WORKFLOW: Final = "NodeWorkflow"
"""Workflow type of a node, as ``temporal workflow start --type`` takes it."""

NODE_MEMO: Final = "node"
"""Key of the workflow's memo that holds a :class:`NodeSummary`: what can be read while no worker answers queries."""

API_SOURCE: Final = "api"
"""The source of single pods (``apply`` and ``delete``); no list governs it."""
FILE_SOURCE: Final = "file"
"""The source that a manifest directory is, by the kubelet's name for it."""

LIST_LIMIT: Final = 1_500_000
"""Bytes of JSON that the pods of all lists may be together: a history of more than 50 MiB ends a node's workflow."""
KNOWN_LIMIT: Final = 1_900_000
"""Bytes that they may be with :data:`KEPT_BYTES` for each: the server refuses a payload above 2 MiB, as which a node's
workflow hands on what it knows."""

KEPT_BYTES: Final = 300
"""What a node's workflow keeps of a listed pod besides its document, which it drops once the pod's workflow has it."""

LISTED_LIMIT: Final = 4000
"""Pods that one list may have, many times what a node can run: a workflow has to take the list within two seconds."""
MADE_LIMIT: Final = 4000
"""Pods that one ``recall_pods`` may name."""

SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
SEEN_ANNOTATION: Final = "kubernetes.io/config.seen"
"""The kubelet's annotations of a pod that no API server knows (pkg/kubelet/types/pod_update.go, v1.36)."""


def node_workflow_id(node: str) -> str:
    """Workflow id of a node: ``node/<name>``, which is its task queue's name too."""
    return node_task_queue(node)


# --- what comes in ----------------------------------------------------------------------------------------------------


class PodKey(Message):
    """Which pod, by name."""

    namespace: str = "default"
    name: str = ""


class SyncPods(Message):
    """Signal ``sync_pods``: all pods of one source. Pods that it listed before and no longer lists are ended."""

    source: str = ""
    """``file`` for the node's manifest directory; any other name but ``api`` for somebody else's list."""
    boot: int = 0
    """Which life of the node's agent has read the list; 0 = somebody else has."""
    pods: tuple[Any, ...] = ()
    """v1 Pods, with a name each and the same one every time."""
    kept: tuple[PodKey, ...] = ()
    """Pods that the source can no longer read but has not been told to end: they stay as they are."""
    gone: tuple[PodKey, ...] = ()
    """Pods of the list whose workflow is gone: they are applied again."""
    problems: tuple[str, ...] = ()
    """What the source cannot make a pod of, one sentence each; shown as events."""


class MadePod(Message):
    """A pod that a list has made, and that the node has a record of."""

    namespace: str = "default"
    name: str = ""
    uid: str = ""
    source: str = ""
    """Which list: its annotation ``kubernetes.io/config.source``."""


class RecallPods(Message):
    """Signal ``recall_pods``: pods that lists have made and that a new run of the node's workflow does not know.

    Each ends once its source has reported and its list does not have it.
    """

    pods: tuple[MadePod, ...] = ()


class ApplyPod(Message):
    """Signal and update ``apply``: make one pod, or change it."""

    pod: Any = None
    """A v1 Pod."""


class DeletePod(Message):
    """Signal and update ``delete``: end one pod that was applied by itself."""

    namespace: str = "default"
    name: str = ""
    uid: str = ""
    """When given, only the pod with this UID is meant."""
    grace_period_seconds: int | None = None
    """``None`` = the pod's own terminationGracePeriodSeconds."""


class NodeCondition(Message):
    """One condition of a node, as a v1 Node has them."""

    type: str = ""
    status: Literal["True", "False", "Unknown"] = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class NodeAddress(Message):
    """One address of a node: ``InternalIP`` or ``Hostname``."""

    type: str = ""
    address: str = ""


class NodeInfo(Message):
    """What a node runs on, in the words of a v1 Node's ``nodeInfo``."""

    kubelet_version: str = ""
    """Of this engine, which stands where a kubelet would."""
    container_runtime_version: str = ""
    """``containerd://1.6.20``."""
    kernel_version: str = ""
    os_image: str = ""
    operating_system: str = ""
    architecture: str = ""


class NodeStatus(Message):
    """Signal ``node_status``: the node's agent reports its node; sent only when something has changed."""

    boot: int = 0
    """Which life of the agent."""
    identity: str = ""
    """The worker's, as Temporal shows it."""
    conditions: tuple[NodeCondition, ...] = ()
    """``Ready`` and the pressures. They never say that a worker lives; its heartbeats do."""
    labels: dict[str, str] = Field(default_factory=dict)
    capacity: dict[str, str] = Field(default_factory=dict)
    allocatable: dict[str, str] = Field(default_factory=dict)
    """Quantities, as Kubernetes writes them."""
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()
    sources: tuple[str, ...] = ()
    """The sources of pods that the agent is configured to read."""
    sources_ready: bool = False
    """Whether every one of them has been read, and reported, in this life of the agent."""


# --- what a query returns ---------------------------------------------------------------------------------------------


class SourceView(Message):
    """The last report of a source."""

    reported_at: datetime | None = None
    boot: int = 0
    """Which life of the agent has reported it; 0 = it was not the agent."""
    pods: int = 0
    """How many pods its list has, those that were rejected not counted."""


class DesiredPod(Message):
    """One pod that the node is to have."""

    namespace: str = "default"
    name: str = ""
    uid: str = ""
    source: str = ""
    state: Literal["pending", "applied", "ending"] = "pending"
    """``pending``: its workflow is not told yet. ``ending``: no source asks for it any more, and its workflow is not
    told yet."""
    reason: str = ""
    """Why its workflow could not be told; "" = it was not tried, or it could."""
    message: str = ""
    retry_at: datetime | None = None
    """When that is tried again."""


class NodeSummary(Message):
    """The contents of the workflow's memo, which can be read while the node is away."""

    name: str = ""
    since: datetime | None = None
    unschedulable: bool = False
    labels: dict[str, str] = Field(default_factory=dict)
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()


class NodeView(Message):
    """Query ``node``: the whole node as its workflow has it."""

    name: str = ""
    since: datetime | None = None
    """When the first run of its chain began: the node's history covers what was made after that."""
    unschedulable: bool = False
    """Cordoned: no new pod is taken but from lists."""
    sources: dict[str, SourceView] = Field(default_factory=dict)
    """By the source's name."""
    desired: tuple[DesiredPod, ...] = ()
    """In order of namespace and name. A pod that was applied by itself is here only until its workflow is told: from
    then on its own open workflow says that it is desired."""
    boot: int = 0
    """The life of the agent that spoke last."""
    sources_ready: bool = False
    """Whether every source that this life of the agent reads has reported in it."""
    identity: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    """What pods choose the node by."""
    capacity: dict[str, str] = Field(default_factory=dict)
    allocatable: dict[str, str] = Field(default_factory=dict)
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()
    events: tuple[EventRecord, ...] = ()
    """Oldest first; ``container`` is empty."""


# --- what its steps are given, and return -----------------------------------------------------------------------------


class NodeStepName(StrEnum):
    """Names of the node's activities, as the history shows them."""

    APPLY_POD = "apply_pod"
    DELETE_POD = "delete_pod"


class ApplyPodWorkflow(Message):
    """Hand a pod to its workflow, started with it where there is none."""

    node: str = ""
    pod: dict[str, Any] = Field(default_factory=dict)
    """A v1 Pod with all its defaults."""
    replaces: tuple[str, ...] = ()
    """UIDs of pods of the same name that are to end first, where they exist."""
    existing_only: bool = False
    """The node is cordoned: only a pod that is there already is changed."""
    unless_there: bool = False
    """Its workflow was told before, and is told again only if it has ended since, or is about to."""


class DeletePodWorkflow(Message):
    """Have a pod's workflow end it."""

    namespace: str = "default"
    name: str = ""
    uids: tuple[str, ...] = ()
    """Only pods with these UIDs are meant; none = whichever pod has the name."""
    grace_period_seconds: int | None = None


class PodWorkflowResult(Message):
    """The answer of a pod's workflow."""

    refused: str = ""
    """Why the workflow refuses, in its own words; "" = it does not."""
    uid: str = ""
    """The pod's UID."""
    absent: bool = False
    """delete_pod: there is no such pod, or no longer."""
    there: bool = False
    """apply_pod with `unless_there`: it is there and stays, so it was not told."""
    cordoned: bool = False
    """apply_pod: it is refused only while its node takes no new pods."""
