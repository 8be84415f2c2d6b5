"""Recorded decisions as JSON: read one case, take its decision, and write the answer.

A case holds everything that its answer depends on. There are three kinds, one for each function here: the actions of a
sync, a pod's phase and conditions, and a container's crash-loop back-off over a series of starts. Times in a case are
integers and names are snake_case, except inside pods and container statuses, which are written as in the API.

Unknown fields are ignored, and a null is the empty value of its field, as in Go's decoder. A field that is missing or
wrong, or a number out of range, raises `CaseError`, which names it by its path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from syncpod.lifecycle.actions import ContainerToUpdate, PodActions
from syncpod.lifecycle.backoff import BackoffStore, collect_garbage, start_decision
from syncpod.lifecycle.compute import compute_pod_actions
from syncpod.lifecycle.conditions import (
    containers_ready_condition,
    initialized_condition,
    known_statuses,
    ready_condition,
)
from syncpod.lifecycle.kubelet_version import KubeletVersion
from syncpod.lifecycle.observed import (
    ContainerRuntimeState,
    ExitCode,
    NetworkMode,
    ObservedContainer,
    ObservedPod,
    ObservedSandbox,
    SandboxState,
)
from syncpod.lifecycle.phase import pod_phase
from syncpod.lifecycle.pod_resources import PodResources
from syncpod.lifecycle.sandbox import pod_sandbox_changed
from syncpod.pod import (
    Container,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodInvalid,
    PodSpec,
    ResourceRequirements,
    container_hash,
    parse_pod,
)
from syncpod.pod.model_errors import first_problem

ProbeResult = Literal["success", "failure", "unknown"]
_Uint32 = Annotated[int, Field(ge=0, lt=2**32)]
"""The attempt number of a sandbox, as in CRI."""
_Milliseconds = Annotated[int, Field(ge=-62_135_596_800_000, lt=253_370_764_800_000)]
"""Milliseconds since 1970, within the years 1 to 9998, so that no delay leads beyond the dates that Python has."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class CaseError(ValueError):
    """A case that cannot be read; the text says where and why."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


# --- computePodActions ------------------------------------------------------------------------------------------------


class _CaseSandbox(_Record):
    id: str
    attempt: _Uint32
    state: SandboxState
    network_mode: NetworkMode = "POD"
    ip: str | None = None


class _CaseContainer(_Record):
    id: str
    name: str
    state: ContainerRuntimeState
    exit_code: ExitCode = 0
    reason: str = ""
    hash_matches: bool = True
    sandbox: str | None = None
    """The id of its sandbox; None = the newest sandbox."""


class _CaseStatus(_Record):
    sandboxes: tuple[_CaseSandbox, ...] = ()
    containers: tuple[_CaseContainer, ...] = ()


class _DecideCase(_Record):
    status: _CaseStatus
    liveness: dict[str, ProbeResult] = Field(default_factory=dict)
    startup: dict[str, ProbeResult] = Field(default_factory=dict)
    actuated: PodResources = PodResources()
    restart_all: bool = False
    kubelet: KubeletVersion = KubeletVersion.V1_36
    """The kubelet whose decision is wanted. Cases that were recorded from 1.36 do not name it."""


def decide(case: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a case of `compute_pod_actions` with its actions."""
    pod, read = _pod(case), _read(_DecideCase, case)
    observed = _observed(read.status, pod.spec)
    newest = observed.newest_by_name()
    actions = compute_pod_actions(
        pod,
        observed,
        liveness={newest[name].id: result for name, result in read.liveness.items() if name in newest},
        startup={newest[name].id: result for name, result in read.startup.items() if name in newest},
        actuated=read.actuated,
        restart_all=read.restart_all,
        kubelet=read.kubelet,
    )
    if not read.kubelet.explains_sandboxes:
        return actions_to_json(actions)
    return actions_to_json(actions) | {"sandbox_not_ready": pod_sandbox_changed(pod.spec, observed).reason}


def actions_to_json(actions: PodActions) -> dict[str, Any]:
    """Return actions as plain JSON with every field. An attempt wraps around to 0, as CRI's uint32 does."""
    updates = {"memory": actions.containers_to_update.memory, "cpu": actions.containers_to_update.cpu}
    return {
        "kill_pod": actions.kill_pod,
        "create_sandbox": actions.create_sandbox,
        "sandbox_id": actions.sandbox_id,
        "attempt": actions.attempt % 2**32,
        "init_containers_to_start": list(actions.init_containers_to_start),
        "containers_to_start": list(actions.containers_to_start),
        "ephemeral_containers_to_start": list(actions.ephemeral_containers_to_start),
        "containers_to_kill": {
            kill.id: {"name": kill.name, "message": kill.message, "reason": kill.cause.reason}
            for kill in actions.containers_to_kill
        },
        "containers_to_update": {
            resource: [_update_to_json(update) for update in listed] for resource, listed in updates.items() if listed
        },
        "update_pod_resources": actions.update_pod_resources,
        "update_pod_level_resources": actions.update_pod_level_resources,
        "containers_to_reset": [
            {"id": reset.id, "name": reset.name, "kill": reset.kill} for reset in actions.containers_to_reset
        ],
    }


def _update_to_json(update: ContainerToUpdate) -> dict[str, Any]:
    return {
        "name": update.name,
        "id": update.id,
        "desired": asdict(update.desired),
        "current": asdict(update.current),
    }


def _observed(status: _CaseStatus, spec: PodSpec) -> ObservedPod:
    """Return the case's listing in the order given: newest first. No decision reads its times.

    Sandboxes are not validated again, since a case's attempt may be greater than any that a node uses.
    """
    hashes = {
        container.name: container_hash(container.name, container.image)
        for container in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    }
    newest = status.sandboxes[0].id if status.sandboxes else ""
    return ObservedPod(
        sandboxes=tuple(
            ObservedSandbox.model_construct(
                id=sandbox.id,
                attempt=sandbox.attempt,
                state=sandbox.state,
                network_mode=sandbox.network_mode,
                ip=sandbox.ip,
            )
            for sandbox in status.sandboxes
        ),
        containers=tuple(
            ObservedContainer(
                id=container.id,
                name=container.name,
                sandbox_id=newest if container.sandbox is None else container.sandbox,
                state=container.state,
                exit_code=container.exit_code,
                reason=container.reason,
                hash=hashes.get(container.name, "") if container.hash_matches else "changed",
            )
            for container in status.containers
        ),
    )


# --- phase and conditions ---------------------------------------------------------------------------------------------


class _PhaseCase(_Record):
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    conditions: tuple[PodCondition, ...] = ()
    old_conditions: tuple[PodCondition, ...] = ()
    pod_is_terminal: bool = False
    pod_has_initialized: bool = False


def phase(case: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a case of phase and conditions with its result."""
    pod, read = _pod(case), _read(_PhaseCase, case)
    init_statuses, statuses = read.init_container_statuses, read.container_statuses
    reached = pod_phase(
        pod,
        init_statuses,
        statuses,
        pod_is_terminal=read.pod_is_terminal,
        pod_has_initialized=read.pod_has_initialized,
    )
    known = known_statuses(init_statuses, statuses)
    initialized = initialized_condition(pod, known, reached, old_conditions=read.old_conditions)
    return {
        "phase": reached,
        "initialized": _condition_to_json(initialized),
        "containers_ready": _condition_to_json(containers_ready_condition(pod, known, reached)),
        "ready": _condition_to_json(ready_condition(pod, known, reached, conditions=read.conditions)),
    }


def _condition_to_json(condition: PodCondition) -> dict[str, str]:
    return {"status": condition.status or "", "reason": condition.reason or "", "message": condition.message or ""}


# --- crash-loop back-off ----------------------------------------------------------------------------------------------


class _CaseInstance(_Record):
    state: ContainerRuntimeState
    finished_at_ms: _Milliseconds | None = None


class _StartEvent(_Record):
    op: Literal["start"]
    at_ms: _Milliseconds
    container: str
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    instances: tuple[_CaseInstance, ...] = ()


class _GarbageCollection(_Record):
    op: Literal["gc"]
    at_ms: _Milliseconds


class _BackoffCase(_Record):
    pod: ObjectMeta
    events: tuple[Annotated[_StartEvent | _GarbageCollection, Field(discriminator="op")], ...] = ()


def backoff(case: Mapping[str, Any]) -> list[dict[str, Any] | None]:
    """Answer a case of crash-loop back-off with a result for each event; None for a garbage collection."""
    read = _read(_BackoffCase, case)
    store = BackoffStore()
    results: list[dict[str, Any] | None] = []
    for event in read.events:
        now = _moment(event.at_ms)
        if isinstance(event, _GarbageCollection):
            store = collect_garbage(store, now=now)
            results.append(None)
            continue
        container = Container(name=event.container, image=event.image, resources=event.resources)
        decision, store = start_decision(store, read.pod, container, finished_at=_newest_exit(event.instances), now=now)
        results.append(
            {
                "allowed": decision.allowed,
                "backoff_ms": decision.delay // timedelta(milliseconds=1),
                "retry_at_ms": None if decision.retry_at is None else _milliseconds(decision.retry_at),
                "message": decision.message,
            }
        )
    return results


def _newest_exit(instances: tuple[_CaseInstance, ...]) -> datetime | None:
    """Return when the newest exited instance finished; `_NEVER` if its time is missing, None if none has exited."""
    for instance in instances:
        if instance.state == "exited":
            return _NEVER if instance.finished_at_ms is None else _moment(instance.finished_at_ms)
    return None


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


# --- reading ----------------------------------------------------------------------------------------------------------

READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "decide": decide,
    "phase": phase,
    "backoff": backoff,
}
"""The function for each kind of case."""

_Case = TypeVar("_Case", bound=BaseModel)


def _pod(case: Mapping[str, Any]) -> Pod:
    if "pod" not in case:
        raise CaseError("pod: required")
    try:
        return parse_pod({} if case["pod"] is None else case["pod"], strict=False)
    except PodInvalid as invalid:
        first = invalid.problems[0]
        raise CaseError(f"{f'pod.{first.path}' if first.path else 'pod'}: {first.message}") from None


def _read(model: type[_Case], case: Mapping[str, Any]) -> _Case:
    given = {name: _without_nulls(case[name]) for name in model.model_fields if case.get(name) is not None}
    # Every required field is an object, and its null counts as an empty object, not as missing.
    given |= {
        name: {} for name, field in model.model_fields.items() if field.is_required() and case.get(name, 0) is None
    }
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise CaseError(str(first_problem(error))) from None


def _without_nulls(value: Any) -> Any:
    """Drop the fields that are null, at any depth; a null in a list stays, and is refused later."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
