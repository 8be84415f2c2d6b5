"""The conditions of a pod, each with its status, a reason, a message and the time of its last transition.

Each function computes one condition without times and generation; `stamp` adds them. The node sets the conditions of
the types in `OWNED`. Those of any other type, such as a readiness gate's, have other owners, and are kept unchanged.

Mirrors status/generate.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from syncpod.lifecycle.kubelet_version import KubeletVersion
from syncpod.lifecycle.observed import ObservedPod
from syncpod.lifecycle.phase import TERMINAL_PHASES, statuses_by_name
from syncpod.lifecycle.restart import is_sidecar
from syncpod.lifecycle.restart_all import should_restart_all
from syncpod.lifecycle.sandbox import pod_sandbox_changed
from syncpod.pod import Container, ContainerStatus, Pod, PodCondition
from syncpod.pod.validation.syntax import qualified_name

INITIALIZED: Final = "Initialized"
READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"
POD_SCHEDULED: Final = "PodScheduled"
READY_TO_START_CONTAINERS: Final = "PodReadyToStartContainers"
ALL_CONTAINERS_RESTARTING: Final = "AllContainersRestarting"
RESIZE_PENDING: Final = "PodResizePending"
RESIZE_IN_PROGRESS: Final = "PodResizeInProgress"

KILL_OVERDUE: Final = "syncpod.dev/KillOverdue"
"""Present, and True, while a kill in the pod is taking too long; the kubelet has no such condition."""

OWNED: Final = (
    READY_TO_START_CONTAINERS,
    INITIALIZED,
    READY,
    CONTAINERS_READY,
    POD_SCHEDULED,
    ALL_CONTAINERS_RESTARTING,
    KILL_OVERDUE,
    RESIZE_PENDING,
    RESIZE_IN_PROGRESS,
)
"""The condition types that only this engine writes."""

MOST_FOREIGN: Final = 64
"""How many conditions of other owners a pod may have."""


def find(conditions: Iterable[PodCondition], type_: str) -> PodCondition | None:
    """Return the condition of a type, or None."""
    return next((condition for condition in conditions if condition.type == type_), None)


def foreign_problem(condition: PodCondition, conditions: Sequence[PodCondition]) -> str:
    """Return why another owner may not set this condition on a pod that has `conditions`; "" if it may.

    Difference: the API server accepts any condition. Here two kinds are refused: the node's own conditions, and those
    that would make the pod's state too large.
    """
    if condition.type in OWNED:
        return f"type: {condition.type} is the node's own to set"
    if wrong := qualified_name(condition.type):
        return f"type: {wrong}"
    for name, text, most in (("reason", condition.reason, 1024), ("message", condition.message, 4096)):
        if len(text.encode()) > most:
            return f"{name}: must be no more than {most} bytes"
    others = {known.type for known in conditions if known.type not in OWNED}
    if condition.type not in others and len(others) >= MOST_FOREIGN:
        return f"type: the pod has {MOST_FOREIGN} conditions of others already"
    return ""


def with_condition(conditions: Sequence[PodCondition], condition: PodCondition) -> tuple[PodCondition, ...]:
    """Return the conditions with `condition` in place of the old one of its type; a new type goes to the front."""
    if find(conditions, condition.type) is None:
        return (condition, *conditions)
    return tuple(condition if known.type == condition.type else known for known in conditions)


def is_true(conditions: Iterable[PodCondition], type_: str) -> bool:
    """Say whether the condition of a type is there and True."""
    condition = find(conditions, type_)
    return condition is not None and condition.status == "True"


def known_statuses(
    init_statuses: Sequence[ContainerStatus] | None, statuses: Sequence[ContainerStatus] | None
) -> tuple[ContainerStatus, ...] | None:
    """Return init and main statuses as one list, the `statuses` of the functions below; None if there are none."""
    if init_statuses is None and not statuses:
        return None
    return (*(init_statuses or ()), *(statuses or ()))


def initialized_condition(
    pod: Pod, statuses: Sequence[ContainerStatus] | None, phase: str, *, old_conditions: Sequence[PodCondition] = ()
) -> PodCondition:
    """Say whether the init containers have done their work, and the sidecars have started.

    `statuses` is the result of `known_statuses`. A pod that was initialized stays so, even while its init containers
    run once more in a restart of all containers. Mirrors GeneratePodInitializedCondition.
    """
    if statuses is None and pod.spec.init_containers:
        return PodCondition(type=INITIALIZED, status="False", reason="UnknownContainerStatuses")
    statuses = statuses or ()
    by_name = statuses_by_name(statuses)
    names = [container.name for container in pod.spec.init_containers]
    unknown = [name for name in names if name not in by_name]
    incomplete = [
        container.name
        for container in pod.spec.init_containers
        if container.name in by_name and not _is_initialized(container, by_name[container.name])
    ]
    if phase == "Succeeded" and not unknown:
        return PodCondition(type=INITIALIZED, status="True", reason="PodCompleted")
    settled = _any_main_container_started(pod, statuses) or is_true(old_conditions, INITIALIZED)
    message = _complaint(("unknown", unknown), ("incomplete", incomplete))
    if not message or settled:
        return PodCondition(type=INITIALIZED, status="True")
    return PodCondition(type=INITIALIZED, status="False", reason="ContainersNotInitialized", message=message)


def containers_ready_condition(pod: Pod, statuses: Sequence[ContainerStatus] | None, phase: str) -> PodCondition:
    """Say whether all sidecars and main containers are ready. Mirrors GenerateContainersReadyCondition."""
    if statuses is None:
        return PodCondition(type=CONTAINERS_READY, status="False", reason="UnknownContainerStatuses")
    by_name = statuses_by_name(statuses)
    sidecars = [container.name for container in pod.spec.init_containers if is_sidecar(container)]
    names = [*sidecars, *(container.name for container in pod.spec.containers)]
    unknown = [name for name in names if name not in by_name]
    unready = [name for name in names if name in by_name and not by_name[name].ready]
    if phase == "Failed" or (phase == "Succeeded" and not unknown):
        return terminal_ready_condition(CONTAINERS_READY, phase)
    message = _complaint(("unknown", unknown), ("unready", unready))
    if message:
        return PodCondition(type=CONTAINERS_READY, status="False", reason="ContainersNotReady", message=message)
    return PodCondition(type=CONTAINERS_READY, status="True")


def ready_condition(
    pod: Pod, statuses: Sequence[ContainerStatus] | None, phase: str, *, conditions: Sequence[PodCondition]
) -> PodCondition:
    """Say whether the pod can serve: its containers are ready, and every readiness gate is True.

    The conditions that the gates name are looked up in `conditions`. Mirrors GeneratePodReadyCondition.
    """
    containers = containers_ready_condition(pod, statuses, phase)
    if containers.status != "True":
        return containers.model_copy(update={"type": READY})
    complaints: list[str] = []
    for gate in pod.spec.readiness_gates:
        condition = find(conditions, gate.condition_type)
        quoted = f'pod readiness gate "{gate.condition_type}"'
        if condition is None:
            complaints.append(f"corresponding condition of {quoted} does not exist.")
        elif condition.status != "True":
            complaints.append(f'the status of {quoted} is not "True", but {condition.status or ""}')
    if complaints:
        return PodCondition(type=READY, status="False", reason="ReadinessGatesNotReady", message=", ".join(complaints))
    return PodCondition(type=READY, status="True")


def terminal_ready_condition(type_: str, phase: str) -> PodCondition:
    """Return the condition `type_`, which is False, for a pod that has ended in `phase`."""
    reason = "PodFailed" if phase == "Failed" else "PodCompleted"
    return PodCondition(type=type_, status="False", reason=reason)


def scheduled_condition() -> PodCondition:
    """Return `PodScheduled`, which is always True: every pod of this engine is on its node already."""
    return PodCondition(type=POD_SCHEDULED, status="True")


def ready_to_start_containers_condition(pod: Pod, observed: ObservedPod, kubelet: KubeletVersion) -> PodCondition:
    """Say whether the pod has a sandbox that containers can be started in.

    Mirrors GeneratePodReadyToStartContainersCondition.
    """
    sandbox = pod_sandbox_changed(pod.spec, observed)
    if not sandbox.changed:
        return PodCondition(type=READY_TO_START_CONTAINERS, status="True")
    if not kubelet.explains_sandboxes:
        return PodCondition(type=READY_TO_START_CONTAINERS, status="False")
    reason, message = "PodSandboxNotReady", sandbox.reason
    return PodCondition(type=READY_TO_START_CONTAINERS, status="False", reason=reason, message=message)


def all_containers_could_restart(pod: Pod) -> bool:
    """Say whether a restart rule of the pod can restart all its containers. Only such a pod has the condition."""
    return any(
        rule.action == "RestartAllContainers"
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for rule in container.restart_policy_rules
    )


def all_containers_restarting_condition(
    pod: Pod,
    observed: ObservedPod,
    phase: str,
    *,
    old_conditions: Sequence[PodCondition],
    starts_later: bool = False,
) -> PodCondition:
    """Say whether the pod is in the middle of a restart of all containers.

    The restart is over when no init or main container is left in the runtime: then all are started again, in the same
    sandbox. Differences: a back-off may delay these starts (`starts_later`), and the restart then goes on until the
    starts. The kubelet has no such back-off. And this condition gets an observedGeneration, as all others do.
    Mirrors GenerateAllContainersRestartingCondition.
    """
    if phase in TERMINAL_PHASES:
        return terminal_ready_condition(ALL_CONTAINERS_RESTARTING, phase)
    in_progress = is_true(old_conditions, ALL_CONTAINERS_RESTARTING)
    if not (starts_later or should_restart_all(pod.spec, observed, in_progress=in_progress)):
        return PodCondition(type=ALL_CONTAINERS_RESTARTING, status="False")
    return PodCondition(
        type=ALL_CONTAINERS_RESTARTING,
        status="True",
        reason="RestartAllContainersStarted",
        message="container exited with restart policy rule",
    )


def stamp(
    condition: PodCondition, old_conditions: Sequence[PodCondition], *, now: datetime, generation: int | None
) -> PodCondition:
    """Give a condition its times and generation: the transition time moves only when the *status* changes.

    A new reason or message under the same status keeps the old time. Mirrors status_manager.go, v1.36,
    updateLastTransitionTime.
    """
    old = find(old_conditions, condition.type)
    unchanged = old is not None and old.status == condition.status and old.last_transition_time is not None
    since = old.last_transition_time if old is not None and unchanged else now
    return condition.model_copy(update={"last_transition_time": since, "observed_generation": generation})


def _is_initialized(container: Container, status: ContainerStatus) -> bool:
    return bool(status.started) if is_sidecar(container) else status.ready


def _any_main_container_started(pod: Pod, statuses: Sequence[ContainerStatus]) -> bool:
    main = {container.name for container in pod.spec.containers}
    return any(status.name in main and (status.state.running or status.state.terminated) for status in statuses)


def _complaint(*parts: tuple[str, list[str]]) -> str:
    """Write `containers with unknown status: [a b], containers with unready status: [c]`, leaving out empty parts."""
    return ", ".join(f"containers with {what} status: [{' '.join(names)}]" for what, names in parts if names)
