"""What crosses Temporal: identities, the workflow's input, signals, updates, and each step's input and result.

Every model here ignores unknown fields and defaults every field, so that an older worker reads what a newer one sent.
Nothing here is strict: what a person types is checked by :mod:`syncpod.pod` with ``strict=True`` before it becomes one
of these. On the wire names are Kubernetes' camelCase and times are RFC 3339 strings, because ``tctl`` re-encodes JSON
numbers as doubles and would spoil integers above 2**53.

Read in this order: identity (:func:`pod_workflow_id`, :class:`PodRef`), what comes in (:class:`Pleg`,
:class:`DeletePod`, :class:`BackoffExpired`), what a step is given (:class:`StepInput` and its children), what it
returns (:class:`StepResult`) and the closed vocabulary of its failures (:class:`Fault`).
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

# The view crosses Temporal as well: whoever sends or receives it takes its types from here.
from syncpod.lifecycle.observed import ObservedContainer as ObservedContainer
from syncpod.lifecycle.observed import ObservedPod as ObservedPod
from syncpod.lifecycle.observed import ObservedSandbox as ObservedSandbox
from syncpod.lifecycle.termination import stop_timeout_seconds
from syncpod.pod import LifecycleHandler, Pod, ResourceRequirements, pod_to_wire

WORKFLOW_ID_LIMIT = 255
"""Bytes. PostgreSQL and MySQL schemas of Temporal hold a workflow id in VARCHAR(255)."""

NAME_LIMIT = 500
"""Characters of a name that becomes a search attribute: a server ends a workflow that writes more than 2,048 bytes."""

POD_WORKFLOW = "PodWorkflow"
"""Workflow type of a pod, as ``temporal workflow start --type`` takes it."""

WirePod = Annotated[Pod, PlainSerializer(pod_to_wire, return_type=dict[str, Any])]
"""A Pod that serialises as kubectl prints it: only what is set."""


class Message(BaseModel):
    """Base of everything here: frozen, camelCase on the wire, unknown fields ignored, every field defaulted."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


# --- identity ---------------------------------------------------------------------------------------------------------


def _bounded_id(prefix: str, readable: str) -> str:
    """Return ``prefix + readable``; where that passes :data:`WORKFLOW_ID_LIMIT` bytes, its beginning and a hash."""
    whole = f"{prefix}{readable}"
    if len(whole.encode()) <= WORKFLOW_ID_LIMIT:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:32]
    head = whole.encode()[: WORKFLOW_ID_LIMIT - len(digest) - 1].decode(errors="ignore")
    return f"{head}-{digest}"


def pod_workflow_id(namespace: str, name: str) -> str:
    """Workflow id of the pod: ``pod/<namespace>/<name>``, at most 255 bytes (a longer one ends in a hash)."""
    return _bounded_id("pod/", f"{namespace}/{name}")


def node_task_queue(node: str) -> str:
    """Task queue of a node's worker, where its pods' workflows and activities both run: ``node/<name>``."""
    return _bounded_id("node/", node)


class PodRef(Message):
    """Which pod, and which life of it."""

    namespace: str = "default"
    name: str = ""
    uid: str = ""
    incarnation: str = ""
    """Tells this life of the pod from an earlier one with the same static UID; an annotation in the runtime."""


def _address(text: str) -> str:
    """Return `text` as it is; raises ValueError where it is no IP address."""
    ip_address(text)
    return text


class NodeFacts(Message):
    """What the workflow must know of its node, told by every step and signal that comes from there."""

    name: str = Field(default="", max_length=NAME_LIMIT)
    runtime: str = Field(default="", max_length=NAME_LIMIT)
    """Name of the CRI runtime, the scheme of ``containerID``; "" = not said."""
    host_ips: tuple[Annotated[str, AfterValidator(_address)], ...] = ()
    search_attributes: bool = False
    """Whether the namespace has :data:`SEARCH_ATTRIBUTES`: writing an unknown one would fail the workflow task."""


# --- what comes in ----------------------------------------------------------------------------------------------------


class PlegEvent(Message):
    """One change that the agent saw: the kubelet's PodLifecycleEvent. It wakes the pod; only ``status`` decides."""

    type: str = ""
    """``ContainerStarted``, ``ContainerDied``, ``ContainerRemoved``, ``PodSync``, ``Boot`` or ``RuntimeReady``."""
    id: str = ""


class Pleg(Message):
    """Signal ``pleg``: the whole pod as the runtime has it, and what changed since the last one."""

    events: tuple[PlegEvent, ...] = ()
    status: ObservedPod = Field(default_factory=ObservedPod)
    node: NodeFacts = NodeFacts()
    decision_version: int = 0
    """The decisions that the sending worker has; 0 = not said. After boot it wakes runs that have older ones."""


class DeletePod(Message):
    """Signal and update ``delete``: end the pod. ``None`` = the pod's own terminationGracePeriodSeconds."""

    grace_period_seconds: int | None = None
    uid: str = ""
    """When given, only the pod with this UID is meant (the API's precondition)."""


class BackoffExpired(Message):
    """Signal ``backoff_expired``: a container's back-off is over; without ``restart``, an operator will not wait."""

    container: str = ""
    restart: int | None = None
    appeared: str = ""
    """The ConfigMap or Secret that was wanting and is there now, where the node's agent says so."""


class Restart(Message):
    """Signal ``restart``: an operator has a container ended with its grace and started again, without a back-off."""

    container: str = ""
    """A main container or a sidecar; "" = every main container."""


class SetCondition(Message):
    """Signal ``set_condition``: what somebody else says of the pod, a readiness gate's condition for one."""

    type: str = ""
    """``example.com/load-balanced``, say; none that the node itself sets."""
    status: Literal["True", "False", "Unknown"] = "Unknown"
    reason: str = ""
    """One word in CamelCase."""
    message: str = ""


class ProbeChanged(Message):
    """Signal ``probe``: what a probe of one container instance says now; sent only when that has changed."""

    uid: str = ""
    """The pod that is meant; "" = whichever has the container."""
    container: str = ""
    container_id: str = Field(
        default="", alias="containerID", validation_alias=AliasChoices("containerID", "containerId")
    )
    """The instance, as the runtime names it."""
    probe: Literal["startup", "liveness", "readiness"] = "readiness"
    result: Literal["success", "failure", "unknown"] = "unknown"
    message: str = ""
    """The last answer, in the kubelet's words."""
    warning: bool = False
    """It is a success about which something is to be said: a redirect to another host."""


class Evict(Message):
    """Signal ``evict``: the node puts the pod out; it becomes Failed with this reason and message, and stays so."""

    uid: str = ""
    """The pod that is meant; another one of its name is left alone."""
    reason: str = "Evicted"
    message: str = ""
    grace_period_seconds: int = 1
    disruption: bool = False
    """It is for want of something on the node, not for what the pod has done: its condition DisruptionTarget says so.
    """


class AddEphemeralContainer(Message):
    """Update ``add_ephemeral_container``: one ``v1.EphemeralContainer``; checked strictly by the update's validator."""

    container: dict[str, Any] = {}


# --- what steps are given ---------------------------------------------------------------------------------------------


class StepInput(Message):
    """What every step is given.

    ``fence`` only grows over the life of an incarnation: the node runs one step per pod at a time and refuses a fence
    older than the newest it has seen, so that a stalled attempt can never act after its successor.
    """

    ref: PodRef = PodRef()
    fence: int = 0


class CreateSandbox(StepInput):
    """Make the pod's directories and its sandbox ``attempt``, or adopt the one that is there."""

    pod: WirePod = Field(default_factory=Pod)
    attempt: int = 0
    adopt: bool = False
    """Make no sandbox: only take over what there is of the pod, whatever its number, for this Temporal cluster."""


class PullImage(StepInput):
    """Pull the image of one container."""

    pod: WirePod = Field(default_factory=Pod)
    container: str = ""
    sandbox_attempt: int = 0


ContainerKind = Literal["container", "init_container", "ephemeral_container"]
"""The kubelet's ``container_type``."""


class SyncVolumes(StepInput):
    """Bring files that show the pod's labels and annotations up to date."""

    pod: WirePod = Field(default_factory=Pod)


class AllocateResources(StepInput):
    """Give a pod on the node the resources that it now asks for, if the node has the room."""

    pod: WirePod = Field(default_factory=Pod)
    """With the resources that are desired."""


class Amounts(Message):
    """CPU and memory of one container: millicores and bytes, 0 = not set."""

    memory_limit: int = 0
    memory_request: int = 0
    cpu_limit: int = 0
    cpu_request: int = 0


class ContainerUpdate(Message):
    """One running container that is to be resized in place."""

    id: str = ""
    name: str = ""
    desired: Amounts = Amounts()
    current: Amounts = Amounts()
    """What it was last given."""


class ResizePod(StepInput):
    """Apply the resources that are allocated to a pod: to running containers, and to the pod as a whole."""

    pod: WirePod = Field(default_factory=Pod)
    """With the resources that are allocated."""
    sandbox_id: str = ""
    memory: tuple[ContainerUpdate, ...] = ()
    cpu: tuple[ContainerUpdate, ...] = ()
    """Containers to update, in that order: all their memory first, then their CPU."""


class StartContainer(StepInput):
    """Create and start one container as restart ``restart``, or adopt the one that is there."""

    pod: WirePod = Field(default_factory=Pod)
    container: str = ""
    kind: ContainerKind = "container"
    restart: int = 0
    sandbox_id: str = ""
    sandbox_attempt: int = 0
    pulled: bool = False
    """The image has just been pulled for this start, so no event says that it was there already."""
    final: bool = False
    """Whether a start that the runtime cannot carry out is the container's end: it then stays, dead, as it ended."""
    prune: tuple[str, ...] = ()
    """Ids of older dead instances of this container, removed (with their logs) while the new one starts."""


class KillTarget(Message):
    """One container to stop."""

    id: str = ""
    name: str = ""
    grace_seconds: int = 30
    """Grace in whole seconds, counted from when the step was scheduled."""
    after: tuple[str, ...] = ()
    """Ids in the same step that must have ended first (sidecars stop after the main ones), bounded by the grace."""
    pre_stop: LifecycleHandler | None = None
    """What the container is to do before it is stopped, within its grace."""
    ports: dict[str, int] = {}
    """The container's named ports, which the hook may name."""

    def timeout_seconds(self, waited_seconds: float) -> int:
        """Return the timeout for StopContainer: what waiting since the step was scheduled has left, at least 2 s."""
        return stop_timeout_seconds(self.grace_seconds, waited_seconds=waited_seconds)


class KillContainer(StepInput):
    """Stop one container that is to be restarted or must end, and wait until it has."""

    target: KillTarget = KillTarget()
    message: str = ""
    reason: str = ""


class KillPod(StepInput):
    """Stop all containers of the pod, then its sandboxes; list until nothing runs."""

    targets: tuple[KillTarget, ...] = ()
    grace_seconds: int = 30
    """For a running container that is not among ``targets`` (one that appeared since)."""
    message: str = ""
    final: bool = False
    """The pod ends for good: once it is stopped, nothing of it runs again, and what it took of its node is free."""
    evicted: bool = False
    """The node puts it out: once it is stopped, none of its dead containers is kept."""


class RemoveContainers(StepInput):
    """Remove containers from the runtime; those in ``kill`` are stopped first."""

    ids: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    keep_logs: bool = False
    message: str = ""


class RemovePod(StepInput):
    """Remove what is left of a stopped pod: containers, sandboxes, cgroups, directories, logs."""


# --- what steps return ------------------------------------------------------------------------------------------------


class Outcome(StrEnum):
    """How a step that did not fail came out."""

    DONE = "done"
    ADOPTED = "adopted"
    """It was there already, made by an attempt whose answer was lost."""
    SPENT = "spent"
    """create_sandbox: the attempt was found dead, stopped and removed; take the next number."""
    IMAGE_ABSENT = "imageAbsent"
    """start_*: the image is not there; pull it first."""
    CANCELLED = "cancelled"
    """The step was cancelled before it had changed anything."""
    STOPPING = "stopping"
    """kill_*: cancelled; the stops already sent go on, and something still runs."""


class StepEvent(Message):
    """An event of the kubelet's vocabulary that a step gives rise to."""

    type: Literal["Normal", "Warning"] = "Normal"
    reason: str = ""
    message: str = ""
    container: str = ""


class Rejection(Message):
    """That the node does not let a pod in, by the kubelet's reason (``OutOfcpu``, ``NodePorts``): it has failed."""

    reason: str = ""
    message: str = ""


class Allocation(Message):
    """The node's answer to a resize: it has allocated the resources, or it has not and says why."""

    pending: Literal["", "Deferred", "Infeasible"] = ""
    """Why they are not allocated: there may be room later, or there never will; "" = they are."""
    message: str = ""


class StepResult(Message):
    """What every step returns: the whole pod's status, read after the step's last call."""

    status: ObservedPod = Field(default_factory=ObservedPod)
    outcome: Outcome = Outcome.DONE
    message: str = ""
    node: NodeFacts = NodeFacts()
    events: tuple[StepEvent, ...] = ()
    missing_images: tuple[str, ...] | None = None
    """create_sandbox, pull_image: names of the containers whose image the node has not got; None = not looked."""
    rejection: Rejection | None = None
    """create_sandbox, failing with PodRejected: why the pod is not let in."""
    allocation: Allocation | None = None
    """allocate_resources: the node's answer."""
    actuated: dict[str, ResourceRequirements] = {}
    """resize_pod, failing: by container, what it has been given all the same."""
    id: str = ""
    """The sandbox or container made or adopted."""
    attempt: int = 1
    """Which try of Temporal's succeeded."""


class Fault(StrEnum):
    """Type of the non-retryable ``ApplicationError`` that a pod-level fault is: the kubelet's own reasons.

    The workflow decides what follows (a visible back-off); Temporal retries only transport faults, which are none of
    these. The error's first detail, if any, is a :class:`StepResult` with the status read back.
    """

    FAILED_CREATE_SANDBOX = "FailedCreatePodSandBox"
    NETWORK_NOT_READY = "NetworkNotReady"
    RUNTIME_NOT_READY = "RuntimeNotReady"
    CREATE_CONTAINER_CONFIG_ERROR = "CreateContainerConfigError"
    CREATE_CONTAINER_ERROR = "CreateContainerError"
    RUN_CONTAINER_ERROR = "RunContainerError"
    POST_START_HOOK_ERROR = "PostStartHookError"
    ERR_IMAGE_PULL = "ErrImagePull"
    ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
    INVALID_IMAGE_NAME = "InvalidImageName"
    IMAGE_INSPECT_ERROR = "ImageInspectError"
    REGISTRY_UNAVAILABLE = "RegistryUnavailable"
    SIGNATURE_VALIDATION_FAILED = "SignatureValidationFailed"
    RESIZE_POD_IN_PLACE_ERROR = "ResizePodInPlaceError"
    UNSUPPORTED_BY_RUNTIME = "UnsupportedByRuntime"
    FAILED_MOUNT = "FailedMount"
    POD_REJECTED = "PodRejected"
    """Admission: the pod is not let in, now or ever; :class:`Rejection` says why."""
    EXCEEDED_GRACE_PERIOD = "ExceededGracePeriod"
    """Something has not ended long after it was to; it is killed again."""
    FAILED_KILL_POD = "FailedKillPod"
    """The runtime refuses to end something, or does not answer; it is asked again."""
    INTERNAL_ERROR = "InternalError"
    """Nobody has foreseen what came up, so it is a defect of ours; the step is tried again after a back-off."""
    STALE_FENCE = "StaleFence"
    """A newer step of this pod has been seen; this one must not act."""


NOT_READY_FAULTS = (Fault.NETWORK_NOT_READY, Fault.RUNTIME_NOT_READY)
"""Faults that end by themselves: the agent signals ``RuntimeReady`` when they have, and no attempt was spent."""


STUCK_FAULTS = (Fault.EXCEEDED_GRACE_PERIOD, Fault.FAILED_KILL_POD)
"""Faults of a kill: what stands in its way is shown until it has gone."""


class StepName(StrEnum):
    """Names of the activities, as the history shows them."""

    CREATE_SANDBOX = "create_sandbox"
    SYNC_VOLUMES = "sync_volumes"
    ALLOCATE_RESOURCES = "allocate_resources"
    RESIZE_POD = "resize_pod"
    PULL_IMAGE = "pull_image"
    START_INIT_CONTAINER = "start_init_container"
    START_EPHEMERAL_CONTAINER = "start_ephemeral_container"
    START_CONTAINER = "start_container"
    KILL_CONTAINER = "kill_container"
    KILL_POD = "kill_pod"
    REMOVE_CONTAINER = "remove_container"
    REMOVE_POD = "remove_pod"


# --- search attributes and queries ------------------------------------------------------------------------------------

SEARCH_ATTRIBUTES: dict[str, str] = {
    "PodNamespace": "Keyword",
    "PodName": "Keyword",
    "PodUID": "Keyword",
    "PodPhase": "Keyword",
    "NodeName": "Keyword",
    "PodReady": "Bool",
    "PodLabels": "KeywordList",
}
"""Search attributes of a pod's workflow and their types, registered by the worker before it polls."""

POD_LABELS_LIMIT = 1536
"""Bytes of ``k=v`` strings kept in PodLabels: the server terminates a workflow whose attribute passes 2,048."""


def labels_attribute(labels: dict[str, str]) -> list[str]:
    """``k=v`` for each label in order of key, as many as fit :data:`POD_LABELS_LIMIT` bytes."""
    kept: list[str] = []
    room = POD_LABELS_LIMIT
    for key in sorted(labels):
        text = f"{key}={labels[key]}"
        room -= len(text.encode()) + 4
        if room < 0:
            break
        kept.append(text)
    return kept


class EventRecord(Message):
    """One event in the kubelet's manner, repeated ones counted."""

    type: Literal["Normal", "Warning"] = "Normal"
    reason: str = ""
    message: str = ""
    container: str = ""
    count: int = 1
    first: datetime | None = None
    last: datetime | None = None


class HistoryRecord(Message):
    """One line of ``syncpod history``: a decision, a step, a signal or an exit, with its time and reason."""

    at: datetime | None = None
    kind: Literal["decision", "step", "signal", "exit", "hold", "update", "rejected"] = "decision"
    subject: str = ""
    """The step's or signal's name, or the container's."""
    container: str = ""
    """Which container a step is about; "" where it is about the whole pod."""
    reason: str = ""
    outcome: str = ""
    attempt: int = 0
    """How many tries Temporal made of the step; 0 where there is nothing to try."""
    took_ms: int = 0
    """Milliseconds of workflow time from scheduling to result; 0 for what takes no time."""
