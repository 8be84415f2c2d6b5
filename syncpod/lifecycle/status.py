"""The status of a pod, computed whole from the runtime's listing, the previous status, and the records.

`pod_status` is called with every new view of the pod. In this order, it

1. computes the status of each container (`syncpod.lifecycle.container_status`);
2. computes the phase from those statuses (Succeeded and Failed are never left again);
3. computes the conditions for that phase;
4. shows the previous phase instead of a terminal one while a container can still run;
5. adds addresses and the start time, and cuts times to seconds and messages to their share.

Mirrors kubelet_pods.go, v1.36, generateAPIPodStatus, and status_manager.go, v1.36, updateStatusInternal,
normalizeStatus, mergePodStatus and TerminatePod.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from syncpod.lifecycle import conditions as condition
from syncpod.lifecycle.addresses import pod_ips
from syncpod.lifecycle.container_status import (
    ContainerContext,
    ProbeResults,
    WaitingReason,
    assume_terminated,
    container_status,
)
from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.kubelet_version import FOLLOWED, KubeletVersion
from syncpod.lifecycle.listing_size import TERMINATION_MESSAGES_LIMIT
from syncpod.lifecycle.observed import ObservedPod
from syncpod.lifecycle.phase import TERMINAL_PHASES, Phase, is_static_pod, pod_has_initialized, pod_phase
from syncpod.lifecycle.pod_resources import PodResources, resources_of, with_resources
from syncpod.lifecycle.qos import pod_qos
from syncpod.lifecycle.restart import is_sidecar
from syncpod.lifecycle.restart_all import should_restart_all
from syncpod.pod import (
    Container,
    ContainerKind,
    ContainerState,
    ContainerStatus,
    HostIP,
    Model,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
    ResourceRequirements,
)
from syncpod.pod.amounts import pod_text

_Part = TypeVar("_Part", bound=Model)


class PodFailure(Model):
    """A verdict on the whole pod, regardless of its containers: `DeadlineExceeded`, `Evicted`, a refused admission."""

    reason: str = ""
    message: str = ""
    rejected: bool = False
    """The pod was never admitted: its status has no containers, addresses or resources, and only the conditions of
    other owners (kubelet.go, v1.36, rejectPod; status_manager.go, mergePodStatus)."""


@dataclass(frozen=True, kw_only=True)
class StatusInputs:
    """Everything that a pod's status is made from. Only `pod`, `observed` and `now` are always needed."""

    pod: Pod
    observed: ObservedPod
    now: datetime
    previous: PodStatus = field(default_factory=PodStatus)
    """The status as last returned; empty for a new pod."""
    runtime: str = ""
    """Name of the container runtime, the scheme of container ids; "" if the node has not reported it."""
    host_ips: tuple[str, ...] = ()
    """The node's addresses, primary first; () when they are not known."""
    waiting: Mapping[str, WaitingReason] = field(default_factory=dict)
    """By container name: why a container that should run does not. Drop an entry when the container has started."""
    exits: Mapping[str, Exit] = field(default_factory=dict)
    """By container name: the recorded exit of its newest instance that has ended."""
    probes: ProbeResults = field(default_factory=ProbeResults)
    terminal: bool = False
    """Every container has been stopped for good: nothing starts any more, with any policy."""
    failure: PodFailure | None = None
    """A verdict that the pod has failed. Pass it until the status has the phase Failed."""
    recursive_read_only: bool = False
    """The runtime handler that the pod runs with supports recursive read-only mounts."""
    actuated: PodResources | None = None
    """The resources last applied, if they differ from those in `pod`; None if they do not."""
    resize: tuple[PodCondition, ...] = ()
    """The conditions about a resize, with their times."""
    followed: Collection[str] = ()
    """Names of main containers that have ended only so that another instance follows, under any policy."""
    overdue: WaitingReason | None = None
    """Why a kill in the pod is taking too long; None = no kill is."""
    restarts_all_later: bool = False
    """All containers were removed to be started again, but a back-off still delays the starts."""
    kubelet: KubeletVersion = FOLLOWED
    """The version whose conditions are written."""


@dataclass(frozen=True)
class StatusDecision:
    """A pod's status, and the phase that it has reached."""

    status: PodStatus
    phase: Phase
    """The phase that has been reached. If it is terminal and `status.phase` is not, the pod must be stopped. The status
    shows the terminal phase once no container can run."""


def pod_status(inputs: StatusInputs) -> StatusDecision:
    """Build the pod's status from values. Raises ValueError for a malformed quantity."""
    pod, previous = inputs.pod, inputs.previous
    in_progress = condition.is_true(previous.conditions, condition.ALL_CONTAINERS_RESTARTING)
    context = ContainerContext(
        pod=pod,
        observed=inputs.observed,
        runtime=inputs.runtime,
        waiting=inputs.waiting,
        exits=inputs.exits,
        probes=inputs.probes,
        restarting_all=in_progress or should_restart_all(pod.spec, inputs.observed, in_progress=False),
        recursive_read_only=inputs.recursive_read_only,
        actuated=inputs.actuated.containers if inputs.actuated is not None else {},
        followed=inputs.followed,
        failed=inputs.failure is not None,
    )
    init = _statuses(context, pod.spec.init_containers, "init_container", previous.init_container_statuses)
    main = _statuses(context, pod.spec.containers, "container", previous.container_statuses)
    ephemeral = _statuses(
        context, pod.spec.ephemeral_containers, "ephemeral_container", previous.ephemeral_container_statuses
    )

    rejected = inputs.failure is not None and inputs.failure.rejected
    if rejected:
        init = main = ephemeral = ()

    phase, reason, message = _reached(inputs, init, main)
    conditions = _foreign_conditions(inputs) if rejected else _conditions(inputs, phase, init, main)
    shown = phase
    if phase in TERMINAL_PHASES and previous.phase not in TERMINAL_PHASES and _could_run(inputs):
        shown = "Running" if previous.phase == "Running" else "Pending"
        reason, message = previous.reason, previous.message

    had = tuple(address.ip for address in previous.pod_ips)
    addresses = () if rejected else pod_ips(pod, inputs.observed, previous=had, host_ips=inputs.host_ips)
    node_ips = () if rejected else inputs.host_ips or tuple(address.ip for address in previous.host_ips)
    status = PodStatus(
        observed_generation=pod.metadata.generation,
        phase=shown,
        reason=reason,
        message=message,
        conditions=conditions,
        host_ip=node_ips[0] if node_ips else "",
        host_ips=tuple(HostIP(ip=ip) for ip in node_ips),
        pod_ip=addresses[0] if addresses else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in addresses),
        start_time=previous.start_time or inputs.now,
        qos_class=previous.qos_class or pod_qos(pod),
        allocated_resources={} if rejected else pod_text(pod, "requests"),
        resources=None if rejected else _whole_resources(with_resources(pod, inputs.actuated or resources_of(pod))),
        init_container_statuses=init,
        container_statuses=main,
        ephemeral_container_statuses=ephemeral,
    )
    return StatusDecision(status=_normalized(pod, status), phase=phase)


def _whole_resources(pod: Pod) -> ResourceRequirements | None:
    """Return the pod-level resources, overhead included; None if the pod sets none.

    Mirrors getEffectiveAllocatedResources. Difference: for a running pod the kubelet reads its cgroup, which rounds.
    """
    requests, limits = pod_text(pod, "requests"), pod_text(pod, "limits")
    return ResourceRequirements(requests=requests, limits=limits) if requests or limits else None


def terminated_pod_status(pod: Pod, status: PodStatus, *, now: datetime) -> PodStatus:
    """Return the last status of a pod that is gone: a container whose end nobody saw counts as failed.

    A container that could have started and has no end becomes `ContainerStatusUnknown`, 137. A pod that is Pending or
    Running becomes Failed; a static pod keeps its phase. Calling it twice changes nothing more.
    Mirrors TerminatePod, and mergePodStatus for the Ready conditions of a terminal phase.
    """
    main = status.container_statuses
    if _was_initialized(pod, status):
        main = tuple(assume_terminated(container) for container in main)
    attempted = _attempted(status.init_container_statuses)
    init = tuple(
        assume_terminated(container) if index < attempted else container
        for index, container in enumerate(status.init_container_statuses)
    )
    phase = status.phase
    if not is_static_pod(pod) and phase not in TERMINAL_PHASES:
        phase = "Failed"
    updated = status.model_copy(
        update={
            "phase": phase,
            "init_container_statuses": init,
            "container_statuses": main,
            "conditions": _conditions_at_end(status, phase, now),
        }
    )
    return _normalized(pod, updated)


def _statuses(
    context: ContainerContext,
    containers: Sequence[Container],
    kind: ContainerKind,
    previous: Sequence[ContainerStatus],
) -> tuple[ContainerStatus, ...]:
    """Return the statuses of one kind: init containers in the spec's order, all others by name, as the kubelet does."""
    old = {status.name: status for status in previous}
    statuses = [container_status(context, container, kind, old.get(container.name)) for container in containers]
    return tuple(statuses if kind == "init_container" else sorted(statuses, key=lambda status: status.name))


def _reached(
    inputs: StatusInputs, init: Sequence[ContainerStatus], main: Sequence[ContainerStatus]
) -> tuple[Phase, str, str]:
    """Return phase, reason and message: a terminal phase stays, and a verdict comes before the containers' statuses."""
    previous = inputs.previous
    if previous.phase == "Succeeded" or previous.phase == "Failed":
        return previous.phase, previous.reason, previous.message
    if inputs.failure is not None:
        return "Failed", inputs.failure.reason, inputs.failure.message
    initialized = pod_has_initialized(inputs.pod, inputs.observed)
    phase = pod_phase(
        inputs.pod,
        init,
        main,
        pod_is_terminal=inputs.terminal,
        pod_has_initialized=initialized,
        followed=inputs.followed,
    )
    if phase == previous.phase:
        return phase, previous.reason, previous.message
    return phase, "", ""


def _could_run(inputs: StatusInputs) -> bool:
    """Say whether a container of the pod could still be running: one is listed, or the pod is not stopped for good."""
    return not inputs.terminal or any(container.state == "running" for container in inputs.observed.containers)


def _foreign_conditions(inputs: StatusInputs) -> tuple[PodCondition, ...]:
    return tuple(c for c in inputs.previous.conditions if c.type not in condition.OWNED)


def _conditions(
    inputs: StatusInputs, phase: Phase, init: Sequence[ContainerStatus], main: Sequence[ContainerStatus]
) -> tuple[PodCondition, ...]:
    """Return the conditions of other owners unchanged, then the node's own in the kubelet's order."""
    pod, observed, old = inputs.pod, inputs.observed, inputs.previous.conditions
    foreign = _foreign_conditions(inputs)
    known = condition.known_statuses(init, main)
    own = [
        condition.ready_to_start_containers_condition(pod, observed, inputs.kubelet),
        condition.initialized_condition(pod, known, phase, old_conditions=old),
    ]
    # As in the kubelet, a readiness gate can name only the conditions computed so far, not ContainersReady or a later
    # one.
    asked = (*foreign, *inputs.resize, *own)
    own += [
        condition.ready_condition(pod, known, phase, conditions=asked),
        condition.containers_ready_condition(pod, known, phase),
        condition.scheduled_condition(),
    ]
    if condition.all_containers_could_restart(pod):
        own.append(
            condition.all_containers_restarting_condition(
                pod, observed, phase, old_conditions=old, starts_later=inputs.restarts_all_later
            )
        )
    if (overdue := inputs.overdue) is not None:
        own.append(
            PodCondition(type=condition.KILL_OVERDUE, status="True", reason=overdue.reason, message=overdue.message)
        )
    generation = pod.metadata.generation
    return (*foreign, *inputs.resize, *(condition.stamp(c, old, now=inputs.now, generation=generation) for c in own))


def _conditions_at_end(status: PodStatus, phase: str | None, now: datetime) -> tuple[PodCondition, ...]:
    """Return the conditions of a pod at its end: Ready and ContainersReady are False.

    If one of the two was True, both get a reason for how the pod ended. Otherwise both keep the reason for which they
    were False.
    """
    types = (condition.READY, condition.CONTAINERS_READY)
    if phase not in TERMINAL_PHASES or not any(condition.is_true(status.conditions, type_) for type_ in types):
        return status.conditions
    return tuple(
        condition.stamp(
            condition.terminal_ready_condition(c.type, phase),
            status.conditions,
            now=now,
            generation=c.observed_generation,
        )
        if c.type in types
        else c
        for c in status.conditions
    )


def _was_initialized(pod: Pod, status: PodStatus) -> bool:
    """Say whether the statuses prove that main containers could start. Mirrors hasPodInitialized."""
    if not pod.spec.init_containers:
        return True
    if any(main.last_state.terminated or not main.state.waiting for main in status.container_statuses):
        return True
    last = pod.spec.init_containers[-1]
    last_status = next((init for init in status.init_container_statuses if init.name == last.name), None)
    if last_status is None:
        return False
    if is_sidecar(last):
        return bool(last_status.state.running) and bool(last_status.started)
    ends = (last_status.last_state.terminated, last_status.state.terminated)
    return any(end is not None and end.exit_code == 0 for end in ends)


def _attempted(init: Sequence[ContainerStatus]) -> int:
    """Return how many init containers, from the first on, were ever tried; at least 1 (initializedContainers)."""
    tried = [index for index, status in enumerate(init) if not status.state.waiting or status.last_state.terminated]
    return max(tried) + 1 if tried else 1


def _normalized(pod: Pod, status: PodStatus) -> PodStatus:
    """Cut times to whole seconds and each termination message to its container's share of 12 KiB."""
    containers = len(pod.spec.containers) + len(pod.spec.init_containers) + len(pod.spec.ephemeral_containers)
    share = TERMINATION_MESSAGES_LIMIT // max(containers, 1)

    def cut(statuses: Sequence[ContainerStatus]) -> tuple[ContainerStatus, ...]:
        return tuple(
            _with(c, {"state": _cut_state(c.state, share), "last_state": _cut_state(c.last_state, share)})
            for c in statuses
        )

    return status.model_copy(
        update={
            "start_time": _to_second(status.start_time),
            "conditions": tuple(
                _with(c, {"last_transition_time": _to_second(c.last_transition_time)}) for c in status.conditions
            ),
            "init_container_statuses": cut(status.init_container_statuses),
            "container_statuses": cut(status.container_statuses),
            "ephemeral_container_statuses": cut(status.ephemeral_container_statuses),
        }
    )


def _cut_state(state: ContainerState, share: int) -> ContainerState:
    if state.running:
        return _with(state, {"running": _with(state.running, {"started_at": _to_second(state.running.started_at)})})
    if state.terminated:
        ended = state.terminated
        terminated = _with(
            ended,
            {
                "started_at": _to_second(ended.started_at),
                "finished_at": _to_second(ended.finished_at),
                # The limit is in bytes; a character that it cuts in two is dropped.
                "message": ended.message.encode()[:share].decode(errors="ignore"),
            },
        )
        return _with(state, {"terminated": terminated})
    return state


def _with(model: _Part, values: Mapping[str, Any]) -> _Part:
    """Return the model with these values; the same object if it has them already, as most parts of a status do."""
    if all(getattr(model, name) == value for name, value in values.items()):
        return model
    return model.model_copy(update=values)


def _to_second(moment: datetime | None) -> datetime | None:
    return moment.replace(microsecond=0) if moment else None
