"""The actions of one sync of a pod, as `compute_pod_actions` returns them, and the names of a pod's steps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from syncpod.lifecycle.kill_cause import KillCause


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerToKill:
    """A container instance to stop. A container that will run again is also in a list of containers to start."""

    id: str
    """Id of the instance in the runtime."""
    name: str
    message: str
    """The message of the `Killing` event."""
    cause: KillCause


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerToReset:
    """A container instance to remove from the runtime so that it can be started again in its sandbox."""

    id: str
    name: str
    kill: bool
    """Kill it first: it has not exited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources:
    """Limits and requests of one container as a resize sees them: bytes and millicores, 0 = not set."""

    memory_limit: int = 0
    memory_request: int = 0
    cpu_limit: int = 0
    cpu_request: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerToUpdate:
    """A running container whose resources change in place."""

    name: str
    id: str
    desired: ContainerResources
    """The amounts in the spec."""
    current: ContainerResources
    """The amounts last applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainersToUpdate:
    """In-place updates by resource, each list in the order to apply it: decreases before increases."""

    memory: tuple[ContainerToUpdate, ...] = ()
    cpu: tuple[ContainerToUpdate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodActions:
    """The actions of one sync. Mirrors kuberuntime_manager.go, v1.36, podActions.

    Difference: `containers_to_kill` is a tuple in the order of the decisions, so the kills always have that order; the
    kubelet has a map.
    """

    kill_pod: bool = False
    """Stop every container and every sandbox first. Also set with `create_sandbox`, even if the pod has no sandbox."""
    create_sandbox: bool = False
    """Make a new sandbox, with number `attempt`."""
    sandbox_id: str = ""
    """Id of the newest sandbox; "" when there is none, or when its network namespace is the wrong one."""
    attempt: int = 0
    """Number of the newest sandbox if it is usable; otherwise the number for a replacement, even if none is made."""
    init_containers_to_start: tuple[int, ...] = ()
    """Indices in `spec.initContainers`, in the order to start them."""
    containers_to_start: tuple[int, ...] = ()
    """Indices in `spec.containers`, in the order to start them."""
    ephemeral_containers_to_start: tuple[int, ...] = ()
    """Indices in `spec.ephemeralContainers`. None is started when the pod is killed without a new sandbox."""
    containers_to_kill: tuple[ContainerToKill, ...] = ()
    """Single containers to stop before anything is started. `kill_pod` neither adds to them nor removes any."""
    containers_to_update: ContainersToUpdate = ContainersToUpdate()
    """Running containers to resize in place."""
    update_pod_resources: bool = False
    """The pod's cgroup must be resized, since a container starts or restarts with other resources than before."""
    update_pod_level_resources: bool = False
    """The pod-level resources differ from those last applied. Computed only once the pod is initialized."""
    containers_to_reset: tuple[ContainerToReset, ...] = ()
    """Instances to remove in a RestartAllContainers pass, in this order; empty in any other sync."""


class StepName(StrEnum):
    """The names of a pod's steps, which are the activity types in its history.

    `syncpod.messages.step_table` has one row for each.
    """

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
