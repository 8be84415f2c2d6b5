"""The messages of a node as a whole: its workflow's signals, updates and view, and its steps.

The same rules as in :mod:`syncpod.messages`: every model ignores unknown fields and defaults every field, names on the
wire are Kubernetes' camelCase, times are RFC 3339 strings. A pod that a person or a source hands in is plain JSON here,
and checked strictly where it is taken.

Read in this order: :data:`NODE_WORKFLOW` and :func:`node_workflow_id`, the messages to it (:class:`SyncPods`,
:class:`RecallPods`, :class:`ApplyToNode`, :class:`DeleteFromNode`, :class:`NodeStatus`, :class:`StaticPods`), the
answer to a query (:class:`NodeView`), the inputs and results of steps (:class:`ApplyPodWorkflow`,
:class:`DeletePodWorkflow`, :class:`PodWorkflowResult`).
"""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import AwareDatetime, Field, StrictInt

from syncpod.messages.identity import Message, node_task_queue
from syncpod.messages.queries import WireEvent
from syncpod.pod.origin import API_SOURCE as API_SOURCE
from syncpod.pod.origin import FILE_SOURCE as FILE_SOURCE
from syncpod.pod.origin import KUBERNETES_SOURCE as KUBERNETES_SOURCE
from syncpod.pod.origin import SEEN_ANNOTATION as SEEN_ANNOTATION
from syncpod.pod.origin import SOURCE_ANNOTATION as SOURCE_ANNOTATION
from syncpod.pod.wire import ForeignText

NODE_WORKFLOW: Final = "NodeWorkflow"
"""Workflow type of a node, as ``temporal workflow start --type`` takes it."""

NODE_MEMO: Final = "node"
"""Key of the workflow's memo that holds a :class:`NodeSummary`, which can be read while no worker answers queries."""

SOURCE_NAMES: Final = {FILE_SOURCE: "the manifests", KUBERNETES_SOURCE: "the Kubernetes cluster"}
"""The node's own sources, in words."""

LIST_LIMIT: Final = 1_500_000
"""How many bytes of JSON the pods of all lists may have together: a history of more than 50 MiB ends a node's workflow.
"""
KNOWN_LIMIT: Final = 1_900_000
"""How many bytes the pods of all lists may have together, with :data:`KEPT_BYTES` more for each. The snapshot of a
node's workflow is one payload, and the server refuses payloads above 2 MiB."""

KEPT_BYTES: Final = 300
"""How many bytes a node's workflow keeps of a listed pod besides its document. The document is dropped once the pod's
workflow has it."""

LISTED_LIMIT: Final = 4000
"""How many pods one list may have: many more than a node can run, but few enough for one workflow task. A task must not
compute for more than two seconds."""
MADE_LIMIT: Final = 4000
"""How many pods one ``recall_pods`` may name."""


OUTAGES_REPORTED: Final = 5
"""How many outages a status names. A status is sent as soon as the server answers, and so rarely has more than one new
outage."""


def document_size(document: Any) -> int:
    """Return the size of a pod's document in bytes of JSON, as a node's workflow counts it."""
    return len(json.dumps(document, separators=(",", ":")).encode())


def node_workflow_id(node: str) -> str:
    """Return the workflow id of a node: ``node/<name>``, which is also the name of its task queue."""
    return node_task_queue(node)


# --- signals and updates ----------------------------------------------------------------------------------------------


class PodKey(Message):
    """Namespace and name of a pod."""

    namespace: str = "default"
    name: str = ""

    @classmethod
    def of(cls, key: str) -> PodKey:
        """Return the pod of a key."""
        namespace, _, name = key.partition("/")
        return cls(namespace=namespace, name=name)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class SyncPods(Message):
    """Signal and update ``sync_pods``: all pods of one source. Pods that it no longer lists are ended."""

    source: str = ""
    """The name of the list; not ``api``, ``file`` or ``kubernetes``, which are sources of the node itself."""
    pods: tuple[Any, ...] = ()
    """v1 Pods; each needs a name that stays the same."""


class MadePod(Message):
    """A pod that was made for a list, and that the node has a record of."""

    namespace: str = "default"
    name: str = ""
    uid: str = ""
    source: str = ""
    """The list's name: the pod's annotation ``kubernetes.io/config.source``."""


class RecallPods(Message):
    """Signal ``recall_pods``: pods that were made for lists and that a new run of the node's workflow does not know.

    Each pod ends once its source has reported a list without it.
    """

    pods: tuple[MadePod, ...] = ()


class ApplyToNode(Message):
    """Signal and update ``apply``: make one pod, or change it."""

    pod: Any = None
    """A v1 Pod."""


class Cordon(Message):
    """The payload of the updates ``cordon`` and ``uncordon``; it may be left out."""

    by: str = ""
    """The sender in the client's own words, which prove nothing; "" = not given."""


class DeleteFromNode(Message):
    """Signal and update ``delete``: end one pod that was applied by itself."""

    namespace: str = "default"
    name: str = ""
    uid: str = ""
    """If set, only the pod with this UID is ended."""
    grace_period_seconds: StrictInt | None = None
    """``None`` = the pod's own terminationGracePeriodSeconds."""


class NodeCondition(Message):
    """One condition of a node, as a v1 Node has them."""

    type: str = ""
    status: Literal["True", "False", "Unknown"] = "Unknown"
    reason: str = ""
    message: ForeignText = ""
    last_transition_time: datetime | None = None


class NodeAddress(Message):
    """One address of a node: ``InternalIP`` or ``Hostname``."""

    type: str = ""
    address: str = ""


class NodeInfo(Message):
    """A node's machine, in the words of a v1 Node's ``nodeInfo``."""

    kubelet_version: str = ""
    """The version of this engine, which takes the place of a kubelet."""
    container_runtime_version: str = ""
    """The runtime's name and version, such as ``containerd://1.6.20``."""
    kernel_version: str = ""
    os_image: str = ""
    operating_system: str = ""
    architecture: str = ""


class Outage(Message):
    """A time in which the Temporal server did not answer the node's agent."""

    begun: AwareDatetime | None = None
    """The time of the last answer before it."""
    ended: AwareDatetime | None = None


class NodeStatus(Message):
    """Signal ``node_status``: the node's agent reports its node; sent only when something has changed."""

    boot: int = 0
    """The boot number of the agent: another one after each of its starts."""
    identity: str = ""
    """The worker's identity, as Temporal shows it."""
    conditions: tuple[NodeCondition, ...] = ()
    """``Ready`` and the pressures. They do not show whether a worker is alive; its heartbeats do."""
    labels: dict[str, str] = Field(default_factory=dict)
    capacity: dict[str, str] = Field(default_factory=dict)
    allocatable: dict[str, str] = Field(default_factory=dict)
    """Quantities, as Kubernetes writes them."""
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()
    sources: tuple[str, ...] = ()
    """The sources of pods that the agent is configured to read."""
    has_cluster_dns: bool = False
    """Whether pods with dnsPolicy ClusterFirst use a cluster's DNS."""
    sources_ready: bool = False
    """Whether every one of `sources` has been read and reported since the agent's last start."""
    outages: tuple[Outage, ...] = ()
    """The last outages of the server that this agent has seen end, oldest first; :data:`OUTAGES_REPORTED` at most."""


# --- memo and query ---------------------------------------------------------------------------------------------------


class SourceView(Message):
    """The last report of a source."""

    reported_at: datetime | None = None
    boot: int = 0
    """The boot number of the agent that has reported it; 0 for a list from another sender."""
    pods: int = 0
    """The number of the source's pods, without rejected ones."""


class DesiredPod(Message):
    """A pod that is desired on the node, or that has not ended yet."""

    namespace: str = "default"
    name: str = ""
    uid: str = ""
    source: str = ""
    state: Literal["pending", "applied", "ending"] = "pending"
    """``pending``: its workflow has no order yet. ``ending``: no source lists it any more, and its workflow has no
    order to end it yet."""
    reason: str = ""
    """Why its workflow could not be reached; "" = it was reached, or not tried yet."""
    message: ForeignText = ""
    retry_at: datetime | None = None
    """When its workflow is tried again; None = no retry is due."""


class NodeSummary(Message):
    """The contents of the workflow's memo, which can be read while the node is away."""

    name: str = ""
    since: datetime | None = None
    unschedulable: bool = False
    labels: dict[str, str] = Field(default_factory=dict)
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()


class StaticPods(Message):
    """Signal ``static_pods``: the node's agent reports the pods of its directory of manifests, which it runs by itself.

    The node's workflow only shows the report, and sends no orders because of it.
    """

    boot: int = 0
    """The boot number of the agent that has read the directory."""
    pods: tuple[DesiredPod, ...] = ()
    """The pods of the directory, and those whose file is gone but whose workflows have no order to end yet."""
    gone: tuple[PodKey, ...] = ()
    """Pods that somebody else has ended since the last report: the agent applies them again."""
    begun_anew: tuple[ForeignText, ...] = ()
    """One sentence for each pod that ends and begins anew, since the pod could not take its changed manifest."""
    problems: tuple[ForeignText, ...] = ()
    """One sentence for each thing in the directory that is not a valid pod, if it is new; shown as events."""


class NodeView(Message):
    """Query ``node``: the whole node, with all that its workflow has recorded."""

    name: str = ""
    since: datetime | None = None
    """When the first run of its chain began: the node's history covers every pod that was made after that."""
    unschedulable: bool = False
    """Cordoned: new pods are taken only from lists."""
    sources: dict[str, SourceView] = Field(default_factory=dict)
    """The last report of each source, by the source's name."""
    desired: tuple[DesiredPod, ...] = ()
    """The desired pods, by namespace and name. A pod that was applied by itself is here only until its workflow has it:
    from then on its own open workflow shows that it is desired."""
    boot: int = 0
    """The boot number of the agent that reported last."""
    sources_ready: bool = False
    """Whether every source that the agent reads has reported since the agent's last start."""
    identity: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    """The node's labels, for nodeSelector and node affinity."""
    capacity: dict[str, str] = Field(default_factory=dict)
    allocatable: dict[str, str] = Field(default_factory=dict)
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeInfo = NodeInfo()
    events: tuple[WireEvent, ...] = ()
    """The events of the node, oldest first; their ``container`` is empty."""


# --- inputs and results of its steps ----------------------------------------------------------------------------------


class NodeStepName(StrEnum):
    """Names of the node's activities, as the history shows them."""

    APPLY_POD = "apply_pod"
    APPLY_PODS = "apply_pods"
    DELETE_POD = "delete_pod"
    DELETE_PODS = "delete_pods"


class ApplyPodWorkflow(Message):
    """Hand a pod to its workflow, which is started if it does not run."""

    node: str = ""
    pod: dict[str, Any] = Field(default_factory=dict)
    """A v1 Pod with all its defaults."""
    replaces: tuple[str, ...] = ()
    """UIDs of pods of the same name that must end first, if they exist."""
    existing_only: bool = False
    """The node is cordoned: only a pod that is there already is changed."""
    unless_there: bool = False
    """The workflow had the order before. It gets the order again only if it has ended since, or is ending."""


class DeletePodWorkflow(Message):
    """Order a pod's workflow to end the pod."""

    namespace: str = "default"
    name: str = ""
    uids: tuple[str, ...] = ()
    """Only pods with these UIDs are ended; empty = any pod that has the name."""
    grace_period_seconds: int | None = None


class ApplyPodWorkflows(Message):
    """Hand several pods to their workflows, all at once."""

    pods: tuple[ApplyPodWorkflow, ...] = ()


class DeletePodWorkflows(Message):
    """Order the workflows of several pods to end their pods, all at once."""

    pods: tuple[DeletePodWorkflow, ...] = ()


class PodWorkflowResult(Message):
    """The answer of a pod's workflow."""

    refused: ForeignText = ""
    """Why the workflow refuses, in its own words; "" if it does not."""
    uid: str = ""
    """The pod's UID."""
    absent: bool = False
    """delete_pod: the pod does not exist, or no longer exists."""
    there: bool = False
    """apply_pod with `unless_there`: the pod exists and stays, so its workflow got no order."""
    cordoned: bool = False
    """apply_pod: it is refused only because its node is cordoned."""


class PodWorkflowResults(Message):
    """The answers of several pods' workflows, in the order of the request."""

    results: tuple[PodWorkflowResult | None, ...] = ()
    """None = the workflow did not answer, or was not reached: it may or may not have the order."""
