"""The one table of steps: each activity's name, input, timeouts and whether it kills.

Temporal retries only transport faults, quickly at first and then every five seconds without end: the runtime comes
back, or the pod is deleted and the step cancelled. Pod-level faults are non-retryable and come back to the workflow,
which decides a back-off that everybody can see. Timeouts are the kubelet's for the calls a step makes (cri-client,
remote_runtime.go, v1.36), so no step is given up before the runtime would have been; what may take as long as a pod or
a registry likes is not cut off, since its next try would only begin it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio.common import Priority, RetryPolicy

from syncpod import messages
from syncpod.messages import StepInput, StepName

HEARTBEAT_TIMEOUT = timedelta(seconds=3)
"""Also bounds how soon a step hears that it is cancelled, and how long a dead worker's step is missed."""

RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=5)
)

RUNTIME_CALL = timedelta(minutes=2)
SANDBOX_CALL = timedelta(minutes=4)
OPEN_END = timedelta(hours=24)
"""For what the kubelet gives no deadline of its own: a pull and the wait for its turn, a postStart hook within a start,
the grace of a kill. Each call in it has its deadline; a step that heartbeats needs one only against being forgotten."""

URGENT, STARTING, PULLING = Priority(priority_key=1), Priority(priority_key=3), Priority(priority_key=4)


@dataclass(frozen=True)
class StepSpec:
    """How one kind of step is run."""

    input: type[StepInput]
    start_to_close: timedelta
    """Of one try, reading the pod's status afterwards included."""
    priority: Priority
    kills: bool = False
    """Whether it ends something: a deletion does not cancel it, only a shorter grace does."""


STEPS: dict[StepName, StepSpec] = {
    StepName.CREATE_SANDBOX: StepSpec(messages.CreateSandbox, SANDBOX_CALL + RUNTIME_CALL, STARTING),
    StepName.SYNC_VOLUMES: StepSpec(messages.SyncVolumes, 2 * RUNTIME_CALL, STARTING),
    StepName.ALLOCATE_RESOURCES: StepSpec(messages.AllocateResources, RUNTIME_CALL, STARTING),
    StepName.RESIZE_POD: StepSpec(messages.ResizePod, 4 * RUNTIME_CALL, STARTING),
    StepName.PULL_IMAGE: StepSpec(messages.PullImage, OPEN_END, PULLING),
    StepName.START_INIT_CONTAINER: StepSpec(messages.StartContainer, OPEN_END, STARTING),
    StepName.START_EPHEMERAL_CONTAINER: StepSpec(messages.StartContainer, OPEN_END, STARTING),
    StepName.START_CONTAINER: StepSpec(messages.StartContainer, OPEN_END, STARTING),
    StepName.KILL_CONTAINER: StepSpec(messages.KillContainer, OPEN_END, URGENT, kills=True),
    StepName.KILL_POD: StepSpec(messages.KillPod, OPEN_END, URGENT, kills=True),
    StepName.REMOVE_CONTAINER: StepSpec(messages.RemoveContainers, OPEN_END, URGENT, kills=True),
    StepName.REMOVE_POD: StepSpec(messages.RemovePod, 4 * RUNTIME_CALL, URGENT, kills=True),
}
"""Every step of a pod. A test holds this table and the registered activities together."""
