"""The one table of a pod's steps: the input of each, how long it may take, and what its interruption means.

Workflows schedule a step by its row, and a worker registers an activity for each (`activities.registry`). A new step
needs a member of `syncpod.lifecycle.actions.StepName`, its input in `syncpod.messages.steps`, a module of its name in
`activities.verbs`, its row here, and its place in `syncpod.lifecycle.plan` or `workflows.pod.decide`; docs/code-map.md
lists the other files that it touches.

Timeouts are the kubelet's for the calls of a step (cri-client, remote_runtime.go, v1.36), so a step lasts at least as
long as its calls. A call whose duration depends on a pod or a registry has no short timeout: the next attempt would
only start it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from syncpod.lifecycle.actions import StepName
from syncpod.messages.steps import (
    AllocateResources,
    CreateSandbox,
    KillContainer,
    KillPod,
    Outcome,
    PullImage,
    RemoveContainers,
    ResizePod,
    StartContainer,
    StepInput,
    SyncVolumes,
)

RUNTIME_CALL: Final = timedelta(minutes=2)
SANDBOX_CALL: Final = timedelta(minutes=4)
OPEN_END: Final = timedelta(hours=24)
"""The timeout of steps without a deadline in the kubelet: a pull and the wait for its turn, a postStart hook within a
start, the grace of a kill. Each call in them has its own deadline, and the step heartbeats. This limit only bounds a
step that heartbeats for ever."""


class Urgency(IntEnum):
    """A step's priority key on its node's task queue: the lower, the sooner."""

    URGENT = 1
    STARTING = 3
    PULLING = 4


class Stage(Enum):
    """A stage of a pod's life that a step belongs to. A node limits how many pods start, or end, at the same time."""

    BEGINNING = "begin"
    ENDING = "end"
    CLEARING = "be removed"
    """Nothing of the pod runs any more. The step waits in the queue of the pods that end, after all of these pods."""


class Interruption(Enum):
    """The effect on a step when its pod must end."""

    GIVES_UP = "gives up"
    """The pod's end cancels the step, which stops before its next change. Its outcome is CANCELLED, and its status
    shows what it did, such as a container whose postStart hook runs. An unexpected error in it is an InternalError."""
    GIVES_WAY = "gives way"
    """The step ends a part of the pod. The pod's end cancels the step and ends that part too, with a grace of its own,
    which may be shorter."""
    GOES_ON = "goes on"
    """The step ends or removes something. The pod's end does not cancel it; only a shorter grace may cancel it."""

    @property
    def ends_something(self) -> bool:
        """Whether the step stops or removes something.

        If it is interrupted, the stops that it sent go on. An unexpected error in it is a FailedKillPod: the pod shows
        why it has not ended, and a second deletion retries the step at once.
        """
        return self is not Interruption.GIVES_UP

    @property
    def outcome(self) -> Outcome:
        """The outcome of a step that was interrupted."""
        return Outcome.STOPPING if self.ends_something else Outcome.CANCELLED


class Place(Enum):
    """Where a step is decided, and what its hold delays."""

    PLANNED = "in the plan"
    """The plan has the step. If it is held, the steps after it are held too: the kubelet's SyncPod ends with the step's
    failure."""
    PLANNED_ALONE = "in the plan, for itself"
    """The plan has the step. If it is held, the steps after it are still tried."""
    BESIDE_THE_PLAN = "beside the plan"
    """The workflow decides the step apart from the plan."""


class Failure(NamedTuple):
    """The event for a failure of a step that brings none, such as a timeout or an unreadable result.

    Mirrors events/event.go, v1.36.
    """

    reason: str
    """The event's reason; "" = the fault itself."""
    prefix: str
    """The text before the message."""
    is_waiting_reason: bool = False
    """The container waits with the fault as its reason."""

    def event(self, fault: str, message: str) -> tuple[str, str]:
        """Return the reason and the message of the event."""
        return self.reason or fault, f"{self.prefix}{message}"


@dataclass(frozen=True)
class StepSpec:
    """How one kind of step is run, what its hold delays, and how its failure reads."""

    input: type[StepInput]
    start_to_close: timedelta
    """The timeout of one attempt, including the read of the pod's status afterwards."""
    urgency: Urgency
    interruption: Interruption
    place: Place
    failure: Failure
    since: int
    """The first version of the decisions with this step (`syncpod.lifecycle.version`). A run with older decisions does
    not take the step, since its history has no such step."""
    module: str = ""
    """The module in `activities.verbs`, and the function in it, that carries the step out; "" = they have the step's
    name."""
    stage: Stage | None = None
    """The queue in which it waits if many pods start or end on its node; None if it never waits for other pods."""


_GIVES_UP, _GIVES_WAY, _GOES_ON = Interruption.GIVES_UP, Interruption.GIVES_WAY, Interruption.GOES_ON
_PLANNED, _ALONE, _BESIDE = Place.PLANNED, Place.PLANNED_ALONE, Place.BESIDE_THE_PLAN
_FAILED: Final = Failure("Failed", "Error: ")
_NOT_STARTED: Final = Failure("Failed", "Error: ", is_waiting_reason=True)
_NOT_KILLED: Final = Failure("FailedKillPod", "error killing pod: ")
_NO_SANDBOX: Final = Failure("", "")

STEPS: Final[dict[StepName, StepSpec]] = {
    StepName.CREATE_SANDBOX: StepSpec(
        CreateSandbox,
        SANDBOX_CALL + RUNTIME_CALL,
        Urgency.STARTING,
        _GIVES_UP,
        _PLANNED,
        _NO_SANDBOX,
        since=1,
        stage=Stage.BEGINNING,
    ),
    StepName.SYNC_VOLUMES: StepSpec(
        SyncVolumes, 2 * RUNTIME_CALL, Urgency.STARTING, _GIVES_UP, _BESIDE, _FAILED, since=1
    ),
    StepName.ALLOCATE_RESOURCES: StepSpec(
        AllocateResources, RUNTIME_CALL, Urgency.STARTING, _GIVES_UP, _BESIDE, _FAILED, since=1
    ),
    StepName.RESIZE_POD: StepSpec(ResizePod, 4 * RUNTIME_CALL, Urgency.STARTING, _GIVES_UP, _ALONE, _FAILED, since=1),
    StepName.PULL_IMAGE: StepSpec(PullImage, OPEN_END, Urgency.PULLING, _GIVES_UP, _BESIDE, _NOT_STARTED, since=1),
    StepName.START_INIT_CONTAINER: StepSpec(
        StartContainer,
        OPEN_END,
        Urgency.STARTING,
        _GIVES_UP,
        _PLANNED,
        _NOT_STARTED,
        since=1,
        module="start_container",
        stage=Stage.BEGINNING,
    ),
    StepName.START_EPHEMERAL_CONTAINER: StepSpec(
        StartContainer,
        OPEN_END,
        Urgency.STARTING,
        _GIVES_UP,
        _ALONE,
        _NOT_STARTED,
        since=1,
        module="start_container",
        stage=Stage.BEGINNING,
    ),
    StepName.START_CONTAINER: StepSpec(
        StartContainer,
        OPEN_END,
        Urgency.STARTING,
        _GIVES_UP,
        _ALONE,
        _NOT_STARTED,
        since=1,
        stage=Stage.BEGINNING,
    ),
    StepName.KILL_CONTAINER: StepSpec(
        KillContainer, OPEN_END, Urgency.URGENT, _GIVES_WAY, _PLANNED, _NOT_KILLED, since=1
    ),
    StepName.KILL_POD: StepSpec(
        KillPod, OPEN_END, Urgency.URGENT, _GOES_ON, _PLANNED, _NOT_KILLED, since=1, stage=Stage.ENDING
    ),
    StepName.REMOVE_CONTAINER: StepSpec(
        RemoveContainers, OPEN_END, Urgency.URGENT, _GOES_ON, _PLANNED, _NOT_KILLED, since=1
    ),
}
"""Every step of a pod, by its name."""
