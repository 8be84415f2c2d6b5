"""The inputs and the result of a pod's steps, and the closed vocabulary of their failures.

The inputs come first (:class:`StepInput` and its children), then the result (:class:`StepResult`), then :class:`Fault`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field
from typing_extensions import override

from syncpod.lifecycle.observed import ObservedPod
from syncpod.lifecycle.termination import stop_timeout_seconds
from syncpod.messages.identity import Message, NodeFacts, PodRef, WirePod
from syncpod.messages.queries import WireExit
from syncpod.pod import ContainerKind, LifecycleHandler, Pod, ResourceRequirements
from syncpod.pod.wire import ForeignText


class StepInput(Message):
    """The input that all steps have in common.

    ``fence`` only grows over a life. The node runs one step per pod at a time, and refuses a fence
    older than the newest one. So a stalled attempt can never act after its successor.
    """

    ref: PodRef = PodRef()
    fence: int = 0

    @property
    def lane(self) -> str:
        """The lane in which the step runs concurrently with its pod's other steps; "" if it takes turns with them."""
        return ""


class CreateSandbox(StepInput):
    """Make the pod's directories and its sandbox ``attempt``, or adopt the existing one."""

    pod: WirePod = Field(default_factory=Pod)
    attempt: int = 0
    followed: bool = False
    """The start of a container has begun together with this step, and waits for it."""
    adopt: bool = False
    """Make no sandbox: only take over the pod's existing sandboxes and containers for this Temporal cluster."""


class PullImage(StepInput):
    """Pull the images that one container needs: its own, and those of the image volumes that it mounts."""

    pod: WirePod = Field(default_factory=Pod)
    container: str = ""
    sandbox_attempt: int = 0

    @property
    @override
    def lane(self) -> str:
        """The container's own lane: a pull makes nothing in the pod."""
        return f"pull {self.container}"


class SyncVolumes(StepInput):
    """Update the files that show the pod's labels, annotations and resources."""

    pod: WirePod = Field(default_factory=Pod)


class AllocateResources(StepInput):
    """Allocate the resources that a pod on the node now requests, if the node has room."""

    pod: WirePod = Field(default_factory=Pod)
    """The pod with its desired resources."""


class Amounts(Message):
    """CPU and memory of one container: millicores and bytes, 0 = not set."""

    memory_limit: int = 0
    memory_request: int = 0
    cpu_limit: int = 0
    cpu_request: int = 0


class ContainerUpdate(Message):
    """One running container to resize in place."""

    id: str = ""
    name: str = ""
    desired: Amounts = Amounts()
    current: Amounts = Amounts()
    """The amounts that it was last given."""


class ResizePod(StepInput):
    """Apply the resources that are allocated to a pod: to running containers, and to the pod as a whole."""

    pod: WirePod = Field(default_factory=Pod)
    """The pod with its allocated resources."""
    sandbox_id: str = ""
    memory: tuple[ContainerUpdate, ...] = ()
    cpu: tuple[ContainerUpdate, ...] = ()
    """The containers to update, in the order of the updates. All updates of memory come before all updates of CPU."""


class StartContainer(StepInput):
    """Create and start one container as restart ``restart``, or adopt the existing instance."""

    pod: WirePod = Field(default_factory=Pod)
    container: str = ""
    kind: ContainerKind = "container"
    restart: int = 0
    sandbox_id: str = ""
    """The sandbox to start in; "" if the start `follows` the step that makes the sandbox."""
    sandbox_attempt: int = 0
    follows: int = 0
    """The fence of the step for whose success it waits: that step makes the sandbox, or starts the container before. 0
    = none: it begins at once."""
    pulled: bool = False
    """The image has just been pulled for this start, so no event reports that it was present."""
    prune: tuple[str, ...] = ()
    """Ids of older dead instances of this container, removed (with their logs) while the new one starts."""


class KillTarget(Message):
    """One container to stop."""

    id: str = ""
    name: str = ""
    grace_seconds: int = 30
    """Grace in whole seconds, counted from when the step was scheduled."""
    after: tuple[str, ...] = ()
    """Ids of containers in the same step that must end first, within the grace: sidecars stop after the main
    containers."""
    pre_stop: LifecycleHandler | None = None
    """The hook that runs before the container is stopped, within its grace; None also if the grace is 0."""
    ports: dict[str, int] = Field(default_factory=dict)
    """The container's named ports, which the hook may name."""

    def timeout_seconds(self, waited_seconds: float) -> int:
        """Return the timeout for StopContainer: the grace less the time since the step was scheduled, at least 2 s."""
        return stop_timeout_seconds(self.grace_seconds, waited_seconds=waited_seconds)


class KillContainer(StepInput):
    """Stop one container, to restart it or to end it for good, and wait until it has ended."""

    target: KillTarget = KillTarget()
    message: str = ""
    reason: str = ""


class KillPod(StepInput):
    """Stop all containers of the pod, then its sandboxes; list until nothing runs."""

    targets: tuple[KillTarget, ...] = ()
    grace_seconds: int = 30
    """The grace of a running container that is not among ``targets``, because it has appeared later."""
    message: str = ""
    final: bool = False
    """The pod ends for good: once stopped, it never runs again, and its resources on the node are free."""
    evicted: bool = False
    """The node evicts it: once it is stopped, none of its dead containers is kept."""
    deleted: bool = False
    """The pod is deleted: once it is stopped, this life of it is over, and its workflow can end."""
    stopped: tuple[str, ...] = ()
    """Sandboxes (runtime ids) that a kill has stopped. A second stop would tear a sandbox's network down again."""


class RemoveContainers(StepInput):
    """Remove containers from the runtime; those in ``kill`` are stopped first."""

    ids: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    keep_logs: bool = False
    message: str = ""
    cause: str = ""
    """The `KillCause` of the containers in ``kill``, for the node's journal."""


class Outcome(StrEnum):
    """The outcome of a step that did not fail."""

    DONE = "done"
    ADOPTED = "adopted"
    """The sandbox or container already existed: an earlier attempt, whose answer was lost, has made it."""
    SPENT = "spent"
    """create_sandbox: the attempt was found dead, stopped and removed; take the next number."""
    IMAGE_ABSENT = "imageAbsent"
    """start_*: the image is not there; pull it first."""
    NOT_BEGUN = "notBegun"
    """start_*: the step before it has not ended as expected, so this step has changed nothing."""
    CANCELLED = "cancelled"
    """The step was cancelled, and stopped between two calls; `status` shows its effects until then."""
    STOPPING = "stopping"
    """kill_*: cancelled; the stops already sent go on, and something still runs."""


class StepEvent(Message):
    """An event that a step emits, in the kubelet's words."""

    type: Literal["Normal", "Warning"] = "Normal"
    reason: str = ""
    message: ForeignText = ""
    container: str = ""


class Rejection(Message):
    """The node's rejection of a pod, with the kubelet's reason (``OutOfcpu``, ``NodePorts``): the pod has failed."""

    reason: str = ""
    message: ForeignText = ""
    final: bool = False
    """No change on the node could get the pod admitted: this life of the pod is over."""


class Allocation(Message):
    """The node's answer to a resize: allocated, or why not."""

    pending: Literal["", "Deferred", "Infeasible"] = ""
    """Why the resources are not allocated: Deferred (there may be room later) or Infeasible (never); "" = they are."""
    message: ForeignText = ""


class StepResult(Message):
    """The result of a step: the whole pod's status, read after the step's last call. Only a pull reads none."""

    status: ObservedPod = Field(default_factory=ObservedPod)
    outcome: Outcome = Outcome.DONE
    message: ForeignText = ""
    node: NodeFacts = NodeFacts()
    events: tuple[StepEvent, ...] = ()
    missing_images: tuple[str, ...] | None = None
    """create_sandbox, pull_image: names of the containers whose image is missing; None = not checked."""
    rejection: Rejection | None = None
    """create_sandbox, failing with PodRejected: why the pod is not admitted."""
    allocation: Allocation | None = None
    """allocate_resources: the node's answer."""
    actuated: dict[str, ResourceRequirements] = Field(default_factory=dict)
    """resize_pod that failed: by container, the resources that it had received before the failure."""
    id: str = ""
    """The sandbox or container made or adopted."""
    ended_before: bool = False
    """kill_container: the container had ended before this step did anything to it."""
    pre_stops: tuple[str, ...] = ()
    """kill_pod, kill_container: names of the containers whose preStop hook has succeeded."""
    stopped: tuple[WireExit, ...] = ()
    """remove_container: the exits of the removed containers that it stopped first, without messages."""
    over: bool = False
    """kill_pod: this life of the pod is over. The node has recorded that, and removes the remains by itself."""
    attempt: int = 1
    """The number of the activity's attempt that succeeded, from 1."""
    idle_ms: int = 0
    """Milliseconds during which it only waited for another step of the pod."""


class Fault(StrEnum):
    """The type of the non-retryable ``ApplicationError`` of a pod-level fault: the kubelet's own reasons.

    The workflow decides the consequence (a visible back-off). Failures that Temporal retries have other types: a
    runtime that does not answer, a disk error, a step that must wait. The error's first detail, if any, is a
    :class:`StepResult` with the status read back.
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
    """Admission: the pod is not admitted; :class:`Rejection` says why."""
    EXCEEDED_GRACE_PERIOD = "ExceededGracePeriod"
    """A container or sandbox has not ended long after its grace; it is killed again."""
    FAILED_KILL_POD = "FailedKillPod"
    """The runtime refuses to stop a container or sandbox, or does not answer; the step is tried again."""
    INTERNAL_ERROR = "InternalError"
    """An unexpected error, so a defect of ours; the step is tried again after a back-off."""
    STALE_FENCE = "StaleFence"
    """The node has begun a newer step of this pod, so this one must not act."""


NOT_READY_FAULTS = (Fault.NETWORK_NOT_READY, Fault.RUNTIME_NOT_READY)
"""Temporary faults: the agent signals ``RuntimeReady`` when they are over. They use up no sandbox attempt."""

NOT_PULLED = (Fault.INVALID_IMAGE_NAME, Fault.IMAGE_INSPECT_ERROR, Fault.ERR_IMAGE_NEVER_PULL)
"""Faults of an image that was not even pulled. They stay the waiting reason: only a pull that has failed becomes
`ImagePullBackOff` (images/image_manager.go, v1.36, EnsureImageExists)."""

STUCK_FAULTS = (Fault.EXCEEDED_GRACE_PERIOD, Fault.FAILED_KILL_POD)
"""Faults of a kill: until it succeeds, the pod shows why it has not ended."""
