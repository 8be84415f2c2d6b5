"""The status of one container, from the runtime's listing, the previous status, and the reason that holds it back.

`container_status` makes a `v1.ContainerStatus` from values. Its state is that of the newest instance that was started.
Its last state is the end of the instance before it. That end comes from the runtime, else from the recorded exits, else
from the previous status.

Mirrors kubelet_pods.go, v1.36, convertToAPIContainerStatuses, and prober_manager.go, v1.36, UpdatePodStatus.
Differences, where we have a record and the kubelet has to guess:

- A container that is gone from the runtime shows its recorded exit. `ContainerStatusUnknown` is only for a container
  that was last seen running, and whose end nobody saw. It is then the *last state*, even when an older exit is known;
  the kubelet goes on showing the older exit.
- A container that vanished while its pod was being evicted, or after its deadline, counts no restart: none follows.
- A container whose state the runtime has lost (`unknown`) stays terminated once it was shown so; the kubelet falls back
  to waiting.
- Ephemeral containers take no part in a restart of all containers, and never wait to be restarted.
- A listed instance never raises the restart count above its own number, which the workflow chose. An instance in state
  `unknown` does not raise it either, since its end may still forbid a restart; the kubelet counts a restart.
- An instance that was created and never started is left out: its start may be given up, and its number is still free.
  The kubelet shows it as waiting, and counts it.
- An init container that the runtime no longer has must have completed if main containers exist. The run that was last
  shown then counts as the completed one; the kubelet assumes that this run was lost, and counts a restart.
- If the instance before the newest has no end (`unknown`), the end before it stays the last state; the kubelet shows a
  waiting last state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from syncpod.lifecycle.exit import STATUS_UNKNOWN, UNKNOWN_EXIT_CODE, Exit
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.phase import RESTARTING_ALL_CONTAINERS
from syncpod.lifecycle.restart import container_should_restart, is_sidecar, should_container_be_restarted
from syncpod.pod import (
    Container,
    ContainerKind,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Model,
    Pod,
    ResourceRequirements,
    VolumeMountStatus,
)

_NOT_LOCATED: Final = "The container could not be located when the pod was terminated"
_USED_TO_RUN: Final = "The container could not be located when the pod was deleted.  The container used to be Running"
_REMOVED_TO_RESTART: Final = "The container is removed because RestartAllContainers in place"
_INIT_FORGOTTEN: Final = (
    "Unable to get init container status from container runtime and pod has been initialized, "
    "treat it as exited normally"
)


class WaitingReason(Model):
    """Why a container that should run does not: the kubelet's reason (`CrashLoopBackOff`, ...), and a message."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class ProbeResults:
    """The last probe results, `success`, `failure` or `unknown`, by container id; no key = no result yet."""

    startup: Mapping[str, str] = field(default_factory=dict)
    readiness: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ContainerContext:
    """The inputs of the statuses of all containers of a pod."""

    pod: Pod
    observed: ObservedPod
    runtime: str = ""
    """The runtime's name, the scheme of container ids (`containerd://...`)."""
    waiting: Mapping[str, WaitingReason] = field(default_factory=dict)
    """By container name: why a container could not be started, or is held back. No other container has an entry."""
    exits: Mapping[str, Exit] = field(default_factory=dict)
    """By container name: the newest recorded exit of the container."""
    probes: ProbeResults = field(default_factory=ProbeResults)
    restarting_all: bool = False
    """A restart of all containers has begun, and may have removed some of them already."""
    recursive_read_only: bool = False
    """The runtime handler that the pod runs with supports recursive read-only mounts."""
    actuated: Mapping[str, ResourceRequirements] = field(default_factory=dict)
    """By container name: the resources last applied to its running instance, if the pod's spec now has others."""
    followed: Collection[str] = ()
    """Names of main containers that have ended only so that another instance follows, under any policy."""
    failed: bool = False
    """The pod has failed as a whole (evicted, past its deadline): no instance follows."""

    def container_id(self, raw: str) -> str:
        """Return an id in the form that statuses have: `containerd://...`."""
        return f"{self.runtime}://{raw}" if self.runtime else raw


def container_status(
    context: ContainerContext, container: Container, kind: ContainerKind, old: ContainerStatus | None
) -> ContainerStatus:
    """Return the status of one container. `old` is its previous status; None if it has none."""
    instances = [
        each for each in context.observed.containers if each.name == container.name and each.state != "created"
    ]
    made = _present(context, container, instances, old) if instances else _absent(context, container, kind, old)
    status = _held_back(context, container, kind, instances[0] if instances else None, made)
    return _probed(context, container, kind, status, old)


def _present(
    context: ContainerContext, container: Container, instances: list[ObservedContainer], old: ContainerStatus | None
) -> ContainerStatus:
    """Return the status of a container with `instances` in the runtime, newest first; each of them was started."""
    newest = instances[0]
    return ContainerStatus(
        name=container.name,
        state=_state(context, newest, old),
        last_state=_last_state(context, newest, instances[1:2], old),
        restart_count=max(newest.restart_count, old.restart_count if old else 0),
        image=newest.image,
        image_id=newest.image_ref,
        container_id=context.container_id(newest.id),
        stop_signal=newest.stop_signal or None,
        user=newest.user,
        resources=_resources(context, container, newest),
        allocated_resources=container.resources.requests,
        volume_mounts=_volume_mounts(context, container),
    )


def _resources(context: ContainerContext, container: Container, newest: ObservedContainer) -> ResourceRequirements:
    """Return a running instance's resources as last applied; if it does not run, those of the next instance.

    Difference: for a running instance the kubelet shows the runtime's report, which is rounded.
    """
    given = context.actuated.get(container.name) if newest.state == "running" else None
    return given or container.resources


def _state(context: ContainerContext, newest: ObservedContainer, old: ContainerStatus | None) -> ContainerState:
    """Return the state of the newest instance."""
    if newest.state == "running":
        return ContainerState(running=ContainerStateRunning(started_at=newest.started_at))
    if (exit_ := newest.exit) is not None:
        return _ended(context, exit_)
    if newest.state == "unknown" and old is not None:
        if old.state.running:
            # It ran, and its state is lost. Showing "waiting" could make a run-once container run twice.
            return _lost(RESTARTING_ALL_CONTAINERS if context.restarting_all else STATUS_UNKNOWN, _NOT_LOCATED)
        if old.state.terminated and old.container_id == context.container_id(newest.id):
            return old.state
    return ContainerState(waiting=ContainerStateWaiting())


def _last_state(
    context: ContainerContext, newest: ObservedContainer, second: list[ObservedContainer], old: ContainerStatus | None
) -> ContainerState:
    """Return how the instance before `newest` ended."""
    newest_id = context.container_id(newest.id)
    before = old.last_state.terminated if old else None
    if before and before.container_id == newest_id:
        before = None  # the old status had the end of `newest` as its last state, while the container waited
    if old and before and before.reason == RESTARTING_ALL_CONTAINERS and old.restart_count >= newest.restart_count:
        return old.last_state  # a restart of all has removed the instance before `newest`, as this state shows
    candidates = [exit_ for instance in second if (exit_ := instance.exit) is not None]
    recorded = context.exits.get(newest.name)
    if recorded and recorded.id != newest.id and recorded.restart < newest.restart_count:
        candidates.append(recorded)
    if candidates:
        return _ended(context, max(candidates, key=lambda exit_: exit_.restart))
    if old is None:
        return ContainerState()
    if old.state.terminated and old.container_id != newest_id:
        return old.state
    return ContainerState(terminated=before)


def _absent(
    context: ContainerContext, container: Container, kind: ContainerKind, old: ContainerStatus | None
) -> ContainerStatus:
    """Return the status of a container with no started instance in the runtime: it is yet to start, or was removed."""
    waiting = "PodInitializing" if context.pod.spec.init_containers else "ContainerCreating"
    status = ContainerStatus(
        name=container.name,
        state=ContainerState(waiting=ContainerStateWaiting(reason=waiting)),
        last_state=old.last_state if old else ContainerState(),
        restart_count=old.restart_count if old else 0,
        image=container.image,
        volume_mounts=_volume_mounts(context, container),
    )
    if context.restarting_all and kind != "ephemeral_container" and old is not None:
        if old.state.waiting and old.state.waiting.reason == RESTARTING_ALL_CONTAINERS:
            return old  # an earlier listing already showed that it was removed, and its restart has been counted
        if not old.state.waiting:
            return _removed_to_restart(old if old.state.terminated else status, old)
    recorded = context.exits.get(container.name)
    seen = old.restart_count if old and old.state.terminated else status.restart_count - 1
    if recorded is not None and recorded.restart > seen:
        return _removed(context, status, recorded, old)
    if old is not None and old.state.terminated:
        return old
    if kind == "init_container" and not is_sidecar(container) and _any_main_container_created(context):
        completed = ContainerStateTerminated(exit_code=0, reason="Completed", message=_INIT_FORGOTTEN)
        return status.model_copy(update={"state": ContainerState(terminated=completed)})
    if old is not None and old.state.running:
        return _vanished(context, status, old)
    return status


def _removed_to_restart(status: ContainerStatus, old: ContainerStatus) -> ContainerStatus:
    """Return the status of a container that a restart of all containers has removed."""
    waiting = ContainerStateWaiting(reason=RESTARTING_ALL_CONTAINERS, message=_REMOVED_TO_RESTART)
    return status.model_copy(
        update={
            "state": ContainerState(waiting=waiting),
            "last_state": _lost(RESTARTING_ALL_CONTAINERS, _REMOVED_TO_RESTART),
            "restart_count": old.restart_count + 1,
        }
    )


def _vanished(context: ContainerContext, status: ContainerStatus, old: ContainerStatus) -> ContainerStatus:
    """Return the status of a container that was last seen running, and whose end nobody saw."""
    restarts = 0 if context.failed or context.pod.metadata.deletion_timestamp else 1
    return status.model_copy(
        update={"last_state": _lost(STATUS_UNKNOWN, _USED_TO_RUN), "restart_count": old.restart_count + restarts}
    )


def _removed(
    context: ContainerContext, status: ContainerStatus, recorded: Exit, old: ContainerStatus | None
) -> ContainerStatus:
    """Return the status of a container that was removed, but whose exit is recorded."""
    container_id = context.container_id(recorded.id)
    before = old.state if old and old.state.terminated else status.last_state
    if before.terminated and before.terminated.container_id == container_id:
        before = ContainerState()  # the recorded end was already the last state, while the container waited
    return status.model_copy(
        update={
            "state": _ended(context, recorded),
            "last_state": before,
            "restart_count": recorded.restart,
            "image": old.image if old else status.image,
            "image_id": old.image_id if old else "",
            "container_id": container_id,
        }
    )


def _any_main_container_created(context: ContainerContext) -> bool:
    """Say whether a main container's newest instance is in a known state. Mirrors HasAnyRegularContainerCreated."""
    main = {container.name for container in context.pod.spec.containers}
    return any(each.name in main and each.state != "unknown" for each in context.observed.newest_by_name().values())


def _held_back(
    context: ContainerContext,
    container: Container,
    kind: ContainerKind,
    newest: ObservedContainer | None,
    status: ContainerStatus,
) -> ContainerStatus:
    """Show a container as waiting if it should run but cannot, and the reason is known; otherwise keep its state."""
    why = context.waiting.get(container.name)
    followed = container.name in context.followed
    if why is None or not (followed or _is_to_run(context.pod, container, kind, newest, status)):
        return status
    last_state = status.state if status.state.terminated else status.last_state
    waiting = ContainerStateWaiting(reason=why.reason, message=why.message)
    return status.model_copy(update={"state": ContainerState(waiting=waiting), "last_state": last_state})


def _is_to_run(
    pod: Pod, container: Container, kind: ContainerKind, newest: ObservedContainer | None, status: ContainerStatus
) -> bool:
    ended = status.state.terminated
    if ended is not None and (kind == "ephemeral_container" or (kind == "init_container" and ended.exit_code == 0)):
        return False
    if newest is None and ended is not None:
        deleted = pod.metadata.deletion_timestamp is not None
        return not deleted and container_should_restart(container, pod.spec, ended.exit_code)
    return should_container_be_restarted(container, pod, newest)


def _probed(
    context: ContainerContext,
    container: Container,
    kind: ContainerKind,
    status: ContainerStatus,
    old: ContainerStatus | None,
) -> ContainerStatus:
    """Add `started` and `ready`: from the probes, else the previous status of the same instance, else by default."""
    if kind == "ephemeral_container":
        return status
    before = old if old is not None and old.container_id == status.container_id and old.state.running else None
    raw_id = status.container_id.rpartition("://")[2]
    started = bool(status.state.running) and _is_started(container, context.probes.startup.get(raw_id), before)
    if kind == "init_container" and not is_sidecar(container):
        ended = status.state.terminated
        # A completed init container stays ready while it is removed to run again.
        ready = status.ready or (ended is not None and ended.exit_code == 0)
    else:
        ready = started and _is_ready(container, context.probes.readiness.get(raw_id), before)
    if (status.started, status.ready) == (started, ready):
        return status
    return status.model_copy(update={"started": started, "ready": ready})


def _is_started(container: Container, result: str | None, before: ContainerStatus | None) -> bool:
    if result is not None:
        return result == "success"
    return container.startup_probe is None or (before is not None and bool(before.started))


def _is_ready(container: Container, result: str | None, before: ContainerStatus | None) -> bool:
    if container.readiness_probe is None:
        return True
    if result is not None:
        return result == "success"
    return before is not None and before.ready


def _ended(context: ContainerContext, exit_: Exit) -> ContainerState:
    return ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=exit_.exit_code,
            reason=exit_.reason,
            message=exit_.message,
            started_at=exit_.started_at,
            finished_at=exit_.finished_at,
            container_id=context.container_id(exit_.id),
        )
    )


def _lost(reason: str, message: str) -> ContainerState:
    """Return the end of a container whose real end nobody saw."""
    return ContainerState(
        terminated=ContainerStateTerminated(exit_code=UNKNOWN_EXIT_CODE, reason=reason, message=message)
    )


def _volume_mounts(context: ContainerContext, container: Container) -> tuple[VolumeMountStatus, ...]:
    """Return how each volume is mounted; for a read-only mount, also whether the mounts below it are read-only.

    Mirrors kubelet_pods.go, v1.36, convertToAPIContainerStatuses with resolveRecursiveReadOnly.
    """
    mounts: list[VolumeMountStatus] = []
    for mount in container.volume_mounts:
        mode: Literal["Disabled", "Enabled"] | None = None
        if mount.read_only:
            asked = mount.recursive_read_only or "Disabled"
            mode = "Disabled" if asked == "Disabled" or not context.recursive_read_only else "Enabled"
        mounts.append(
            VolumeMountStatus(
                name=mount.name, mount_path=mount.mount_path, read_only=mount.read_only, recursive_read_only=mode
            )
        )
    return tuple(mounts)


def assume_terminated(status: ContainerStatus) -> ContainerStatus:
    """Return the status of a container that must have ended though nobody saw it. A known end stays as it is."""
    if status.state.terminated:
        return status
    return status.model_copy(update={"state": _lost(STATUS_UNKNOWN, _NOT_LOCATED)})
