"""What comes in: signals, updates and the results of steps, folded into the pod's state.

Handlers of the workflow only collect; here what they collected is parsed. Nothing that arrives can fail the pod: what
cannot be understood becomes a rejection, an event that ``describe`` shows. Nothing observed is dropped: every listing
is merged into the view, and every exit in it becomes a recorded fact.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from syncpod.lifecycle import backoff
from syncpod.lifecycle.container_status import WaitingReason
from syncpod.lifecycle.observed import ObservedPod, merge
from syncpod.lifecycle.phase import TERMINAL_PHASES
from syncpod.lifecycle.plan import something_to_stop
from syncpod.messages import (
    NOT_READY_FAULTS,
    BackoffExpired,
    DeletePod,
    NodeFacts,
    Outcome,
    Pleg,
    StepName,
    StepResult,
)
from syncpod.pod import (
    EphemeralContainer,
    Pod,
    PodInvalid,
    Problem,
    admit_ephemeral_container,
    admit_pod,
    merge_update,
    pod_to_wire,
    validate_update,
)
from workflows.decide import Step
from workflows.state import Deletion, Exit, PodState, age, has_run

EARLY = timedelta(seconds=1)
"""How far before its end a back-off may be ended by the queue's signal, should clocks run apart."""


class Rejected(Exception):
    """What came in cannot be accepted; the text says why, in one sentence."""


def absorb(state: PodState, name: str, args: tuple[Any, ...], now: datetime) -> None:
    """Fold one signal into the state; one that is wrong is recorded as a rejection.

    Broad on purpose: a signal is in the history for ever, and an exception here would fail the same workflow task again
    and again, on every worker.
    """
    try:
        if len(args) != 1:
            raise Rejected(f"takes one payload, got {len(args)}")
        _SIGNALS[name](state, args[0], now)
    except (Rejected, PodInvalid) as wrong:
        reject(state, name, f"signal {name}: {wrong}", now)
    except ValidationError as wrong:
        reject(state, name, f"signal {name}: {_first_problem(wrong)}", now)
    except Exception as wrong:  # noqa: BLE001  # Replay: see above
        reject(state, name, f"signal {name}: {type(wrong).__name__}: {wrong}", now)


def tidy(state: PodState, now: datetime) -> None:
    """Forget back-offs that have expired; an image's or an old definition's would stay for ever."""
    state.backoff = backoff.collect_garbage(state.backoff, now=now)


def reject(state: PodState, name: str, why: str, now: datetime) -> None:
    """Record that something was not accepted, and why."""
    text = why if len(why) <= 500 else why[:499] + "…"
    state.event(now, "Warning", "Rejected", text)
    state.note(now, "rejected", name, text)


def _first_problem(wrong: ValidationError) -> str:
    problem = wrong.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}" if where else str(problem["msg"])


# --- desired state ----------------------------------------------------------------------------------------------------


def apply(state: PodState, document: Any, now: datetime) -> None:
    """Take a Pod document as the desired pod; a repeat changes nothing. Raises PodInvalid naming the field.

    During deletion it becomes the successor, which follows when this life has ended. What may change is what the API
    server lets change in a Pod (validation.go, v1.36, ValidatePodUpdate).
    """
    new = admit_pod(document)
    for_another = new.metadata.name, new.metadata.namespace
    mine = state.pod.metadata
    if for_another != (mine.name, mine.namespace):
        raise PodInvalid((Problem("metadata.name", f"must be {mine.namespace}/{mine.name}, the pod of this workflow"),))
    if state.deletion is not None:
        state.successor = pod_to_wire(new)
        state.note(now, "update", "apply", "the pod is being deleted; this one follows")
        return
    problems = validate_update(state.pod, new)
    if problems:
        raise PodInvalid(problems)
    updated = merge_update(state.pod, new)
    if updated == state.pod:
        return
    _forget_old_images(state, updated)
    state.pod = updated
    state.note(now, "update", "apply", f"generation {updated.metadata.generation}")


def _forget_old_images(state: PodState, updated: Pod) -> None:
    """Forget what was known of the images of containers that have another one now."""
    spec = updated.spec
    images = {container.name: container.image for container in (*spec.init_containers, *spec.containers)}
    changed = {name for name, image in images.items() if state.container(name).image != image}
    state.missing_images = tuple(name for name in state.missing_images if name not in changed)
    state.pulled = {name: restart for name, restart in state.pulled.items() if name not in changed}
    state.waiting = {name: why for name, why in state.waiting.items() if name not in changed}
    for name in sorted(changed):
        state.backoff = backoff.forget(state.backoff, backoff.step_key("start", name))


def add_ephemeral_container(state: PodState, document: Any, now: datetime) -> EphemeralContainer:
    """Add an ephemeral container to the running pod; raises PodInvalid, or Rejected while the pod is being deleted."""
    if state.deletion is not None or state.terminated:
        raise Rejected("the pod is being deleted or has finished: no container can be added")
    container = admit_ephemeral_container(state.pod, document)
    present = next((c for c in state.pod.spec.ephemeral_containers if c.name == container.name), None)
    if present is not None:
        return present
    meta = state.pod.metadata.model_copy(update={"generation": (state.pod.metadata.generation or 1) + 1})
    spec = state.pod.spec.model_copy(update={"ephemeral_containers": (*state.pod.spec.ephemeral_containers, container)})
    state.pod = state.pod.model_copy(update={"metadata": meta, "spec": spec})
    state.note(now, "update", "add_ephemeral_container", container.name)
    return container


def delete(state: PodState, payload: Any, now: datetime) -> None:
    """End the pod. A later request can only shorten the grace (pod_workers.go, v1.36, calculateEffectiveGracePeriod).

    Raises Rejected when the payload names another UID, or a negative grace.
    """
    request = DeletePod.model_validate(payload if payload is not None else {})
    if request.uid and request.uid != state.pod.metadata.uid:
        raise Rejected(f"uid: is {state.pod.metadata.uid}, not {request.uid}")
    own = state.pod.spec.termination_grace_period_seconds
    grace = request.grace_period_seconds
    if grace is None:
        grace = 30 if own is None else own
    if grace < 0:
        raise Rejected("gracePeriodSeconds: must be 0 or more")
    if state.deletion is None:
        state.deletion = Deletion(requested_at=now, grace_seconds=grace)
        state.note(now, "update", "delete", f"grace {grace} s")
    elif grace < state.deletion.grace_seconds:
        state.deletion = state.deletion.model_copy(update={"grace_seconds": grace})
        state.note(now, "update", "delete", f"grace shortened to {grace} s")
    else:
        return
    if state.kill_by is not None:
        state.kill_by = min(state.kill_by, now + timedelta(seconds=grace))
    deleted_at = now + timedelta(seconds=grace)
    meta = state.pod.metadata.model_copy(
        update={"deletion_timestamp": deleted_at, "deletion_grace_period_seconds": grace}
    )
    state.pod = state.pod.model_copy(update={"metadata": meta})


# --- signals ----------------------------------------------------------------------------------------------------------


def _update_pod(state: PodState, payload: Any, now: datetime) -> None:
    apply(state, payload, now)


def _pleg(state: PodState, payload: Any, now: datetime) -> None:
    signal = Pleg.model_validate(payload)
    uid = signal.status.uid
    if uid and uid != state.pod.metadata.uid:
        raise Rejected(f"is about the pod {uid}, this is {state.pod.metadata.uid}")
    _meet_node(state, signal.node)
    if uid:
        observe(state, signal.status, now)
    if any(event.type == "RuntimeReady" for event in signal.events):
        _forget_not_ready(state)


def _backoff_expired(state: PodState, payload: Any, now: datetime) -> None:
    signal = BackoffExpired.model_validate(payload)
    subject = signal.container
    names = {c.name for c in (*state.pod.spec.init_containers, *state.pod.spec.containers)}
    names |= {c.name for c in state.pod.spec.ephemeral_containers}
    if signal.restart is None and subject not in names:
        known = ", ".join(sorted(names))
        raise Rejected(f"container: is {subject!r}, must be one of {known}")
    expected = state.next_restart(subject) if subject in names else 0
    if signal.restart is None:
        state.note(now, "signal", "backoff_expired", f"an operator ends the back-off of {subject}")
    elif signal.restart != expected:
        return
    state.released = {**state.released, subject: expected}


def _probe(state: PodState, payload: Any, now: datetime) -> None:
    del state, payload, now
    raise Rejected("probes are not supported yet")


_SIGNALS = {
    "update_pod": _update_pod,
    "delete_pod": delete,
    "pleg": _pleg,
    "probe": _probe,
    "backoff_expired": _backoff_expired,
}


def _meet_node(state: PodState, node: NodeFacts) -> None:
    if node.runtime:
        state.node = node


def _forget_not_ready(state: PodState) -> None:
    for key, entry in state.backoff.entries.items():
        if entry.reason in NOT_READY_FAULTS:
            state.backoff = backoff.forget(state.backoff, key)


# --- what the runtime has ---------------------------------------------------------------------------------------------


def observe(state: PodState, listing: ObservedPod, now: datetime) -> None:
    """Merge a listing into the view and record what it shows for the first time: starts and exits."""
    state.observed = merge(state.observed, listing)
    known = {exit_.id for exit_ in state.exits}
    # Oldest first, so that the exits are recorded in the order in which they happened.
    for container in reversed(state.own.containers):
        if has_run(container):
            state.restarts[container.name] = max(state.restarts.get(container.name, 0), container.restart_count)
        if container.state != "exited" or container.id in known or not has_run(container):
            continue
        exit_ = Exit(
            id=container.id,
            name=container.name,
            restart=container.restart_count,
            exit_code=container.exit_code,
            reason=container.reason,
            message=container.message,
            started_at=container.started_at,
            finished_at=container.finished_at,
            at=now - age(listing, container),
            cause=state.killed.get(container.id, ""),
        )
        state.record_exit(exit_)
        code = f"exited {exit_.exit_code}" + (f" ({exit_.reason})" if exit_.reason else "")
        state.note(now, "exit", exit_.name, exit_.cause, outcome=code)
    present = {container.id for container in state.observed.containers}
    state.killed = {container_id: why for container_id, why in state.killed.items() if container_id in present}
    there = {sandbox.id for sandbox in state.observed.sandboxes}
    state.stopped_sandboxes = tuple(sandbox_id for sandbox_id in state.stopped_sandboxes if sandbox_id in there)


# --- results of steps -------------------------------------------------------------------------------------------------


def finished_step(state: PodState, step: Step, payload: Any, started: datetime, now: datetime) -> None:
    """Fold a step's result into the state. A result that cannot be read counts as a failure of the step."""
    try:
        result = StepResult.model_validate(payload)
        _look(state, result, now)
    except ValueError as wrong:
        failed_step(state, step, "UnreadableResult", f"the step's result cannot be read: {wrong}", None, started, now)
        return
    state.backoff = backoff.forget(state.backoff, step.key)
    match result.outcome:
        case Outcome.SPENT:
            state.sandbox_floor = max(state.sandbox_floor, getattr(step.input, "attempt", 0) + 1)
        case Outcome.IMAGE_ABSENT:
            state.missing_images = (*state.missing_images, step.container)
        case Outcome.DONE | Outcome.ADOPTED:
            _done(state, step)
        case Outcome.CANCELLED | Outcome.STOPPING:
            state.cleared = _without(state.cleared, step.container)
    took = int((now - started) / timedelta(milliseconds=1))
    state.note(
        now, "step", step.name.value, step.why, outcome=result.outcome.value, attempt=result.attempt, took_ms=took,
        container=step.container,
    )  # fmt: skip


def _look(state: PodState, result: StepResult, now: datetime) -> None:
    _meet_node(state, result.node)
    observe(state, result.status, now)
    for event in result.events:
        state.event(now, event.type, event.reason, event.message, event.container)
    if result.missing_images is not None:
        state.missing_images = result.missing_images


def _done(state: PodState, step: Step) -> None:
    """Remember what a step that succeeded has changed for the next decision."""
    match step.name:
        case StepName.START_CONTAINER | StepName.START_INIT_CONTAINER | StepName.START_EPHEMERAL_CONTAINER:
            state.waiting = _without(state.waiting, step.container)
            state.cleared = _without(state.cleared, step.container)
            state.missing_images = tuple(name for name in state.missing_images if name != step.container)
        case StepName.PULL_IMAGE:
            state.waiting = _without(state.waiting, step.container)
            image = state.container(step.container).image
            same = [name for name in state.missing_images if state.container(name).image == image]
            state.missing_images = tuple(name for name in state.missing_images if name not in same)
            state.pulled = {**state.pulled, step.container: state.next_restart(step.container)}
        case StepName.KILL_POD:
            state.stopped_sandboxes = tuple(sandbox.id for sandbox in state.observed.sandboxes if not sandbox.ready)
            ending = state.deletion is not None or state.reached in TERMINAL_PHASES
            state.terminated = ending and not something_to_stop(state.observed, state.stopped_sandboxes)
            if not ending:
                state.kill_by = None
        case StepName.REMOVE_POD:
            state.removed = True
        case StepName.CREATE_SANDBOX:
            state.waiting = {}
        case _:
            pass


def failed_step(
    state: PodState, step: Step, fault: str, message: str, payload: Any, started: datetime, now: datetime
) -> None:
    """Fold a step's failure into the state: what was read back, an event, and a time before which it is not retried."""
    told = False
    if payload is not None:
        try:
            result = StepResult.model_validate(payload)
            _look(state, result, now)
            told = bool(result.events)
        except ValueError as wrong:
            reject(state, step.name.value, f"the step's status cannot be read: {wrong}", now)
    state.backoff = backoff.record_failure(state.backoff, step.key, now=now, reason=fault, message=message)
    state.cleared = _without(state.cleared, step.container)
    if step.container and step.name.value.startswith(("start_", "pull_")):
        state.waiting = {**state.waiting, step.container: WaitingReason(reason=fault, message=message)}
    if not told:
        state.event(now, "Warning", *_as_event(step, fault, message), step.container)
    took = int((now - started) / timedelta(milliseconds=1))
    why = f"{step.why}: {message}"
    state.note(now, "step", step.name.value, why, outcome=fault, took_ms=took, container=step.container)


def cancelled_step(state: PodState, step: Step, started: datetime, now: datetime) -> None:
    """Record that a step was cancelled before it had changed anything."""
    state.cleared = _without(state.cleared, step.container)
    took = int((now - started) / timedelta(milliseconds=1))
    state.note(now, "step", step.name.value, step.why, outcome="cancelled", took_ms=took, container=step.container)


def _as_event(step: Step, fault: str, message: str) -> tuple[str, str]:
    """Return reason and message for a failure that the step itself had no words for: a time-out, an unreadable result.

    Mirrors events/event.go, v1.36.
    """
    match step.name:
        case StepName.KILL_POD | StepName.KILL_CONTAINER | StepName.REMOVE_CONTAINER | StepName.REMOVE_POD:
            return "FailedKillPod", f"error killing pod: {message}"
        case StepName.CREATE_SANDBOX:
            return fault, message
        case _:
            return "Failed", f"Error: {message}"


def _without(table: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}


def successor_of(state: PodState) -> dict[str, Any] | None:
    """Return the workflow input of the run that follows, where a pod was applied during deletion."""
    return {"pod": state.successor} if state.successor is not None else None


def as_pod(state: PodState) -> Pod:
    """Return the whole pod with its status, as ``kubectl get -o json`` has it."""
    return state.pod.model_copy(update={"status": state.status})
