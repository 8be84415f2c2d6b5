"""Folds the results of steps into the pod's state: their effects, their listings, and their failures."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from syncpod.lifecycle import backoff
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.container_status import WaitingReason
from syncpod.lifecycle.kill_cause import PRE_STOP_FAILED
from syncpod.lifecycle.observed import Seq
from syncpod.lifecycle.plan import something_to_stop
from syncpod.lifecycle.start_errors import START_ERROR
from syncpod.messages.queries import clipped
from syncpod.messages.step_table import STEPS
from syncpod.messages.steps import (
    AllocateResources,
    CreateSandbox,
    Fault,
    KillPod,
    Outcome,
    PullImage,
    ResizePod,
    StartContainer,
    StepResult,
    SyncVolumes,
)
from syncpod.pod import Pod
from workflows.pod import holds, observing, repetition, resizing, verdicts
from workflows.pod.decision import Step
from workflows.pod.state import FAILED_HOOKS_KEPT, FailedHook, PodState


def finished_step(state: PodState, step: Step, payload: Any, started: datetime, now: datetime) -> None:
    """Fold a step's result into the state. An unreadable result changes nothing, and counts as a failure."""
    try:
        with state.all_or_nothing():
            _fold(state, step, StepResult.model_validate(payload), started, now)
    except ValueError as wrong:
        failed_step(state, step, "UnreadableResult", f"the step's result cannot be read: {wrong}", None, started, now)


def _fold(state: PodState, step: Step, result: StepResult, started: datetime, now: datetime) -> None:
    """Fold in the result of a step that has not failed. Raises ValueError."""
    # The step's line comes before the lines of its consequences: a container may end before its start has returned.
    state.note(
        now, "step", step.name.value, _with_hooks(step, result), outcome=result.outcome.value, attempt=result.attempt,
        took_ms=_took(started, now, result), container=step.container, fact=step.fact,
    )  # fmt: skip
    _look(state, step, result, started, now)
    repetition.settle(state, step, now, done=result.outcome in (Outcome.DONE, Outcome.ADOPTED))
    match result.outcome:
        case Outcome.SPENT:
            verdicts.take_back_rejection(state, step)
            state.sandbox_floor = max(state.sandbox_floor, getattr(step.input, "attempt", 0) + 1)
        case Outcome.IMAGE_ABSENT:
            state.missing_images = (*state.missing_images, step.container)
        case Outcome.DONE | Outcome.ADOPTED:
            verdicts.take_back_rejection(state, step)
            _done(state, step, result, now)
            if result.over and state.terminated:
                state.removed = True
        case Outcome.NOT_BEGUN | Outcome.CANCELLED | Outcome.STOPPING:
            holds.uncount(state, step.container)


def _with_hooks(step: Step, result: StepResult) -> str:
    """Return why a step was taken, and how the preStop hooks in it ended."""
    ran = [f"preStop of {', '.join(result.pre_stops)} ran"] if result.pre_stops else []
    failed = [
        f"preStop of {event.container} {event.message.removeprefix('PreStopHook ')}"
        for event in result.events
        if event.reason == PRE_STOP_FAILED
    ]
    return "; ".join((step.why, *ran, *failed))


def _took(started: datetime, now: datetime, result: StepResult) -> int:
    """Return how many milliseconds a step took, without the time in which it only waited for another step."""
    return max(0, int((now - started) / timedelta(milliseconds=1)) - result.idle_ms)


def _look(state: PodState, step: Step, result: StepResult, started: datetime, now: datetime) -> None:
    observing.update_node_facts(state, result.node)
    # The step's own events come before their consequences: a start before the exit, and a kill before the exit.
    said = {each.container for each in state.events if each.reason == "Killing" and each.last and each.last >= started}
    for event in result.events:
        if event.reason != "Killing" or event.container not in said:  # recorded when the kill began
            state.event(now, event.type, event.reason, event.message, event.container)
    if result.ended_before:
        observing.forget_needless_kill(state, step)
    _follow_numbers(state, step, result, now)
    observing.record_stopped(state, result.stopped, result.status, now)
    observing.observe(state, result.status, now)
    resizing.partly_applied(state, result.actuated)
    if result.missing_images is not None:
        missing = tuple(name for name in result.missing_images if _still_wants(state, step, name))
        if step.name == StepName.PULL_IMAGE:
            # Another pull may since have brought an image that this pull still found missing.
            missing = tuple(name for name in missing if name in state.missing_images)
        state.missing_images = missing


def _follow_numbers(state: PodState, step: Step, result: StepResult, now: datetime) -> None:
    """Accept the current sequence numbers of listings if they have fallen behind those of an earlier agent.

    Otherwise no later listing of the node would count. A step lists after it has started, so its listing is newer than
    every listing known at that time, even if its number is lower.
    """
    listed, known = result.status, step.known
    if not listed.uid or listed.seq.boot >= known.boot:
        return
    state.observed = state.observed.model_copy(update={"seq": Seq()})
    text = f"The node's listings are numbered {listed.seq.boot}, and were {known.boot} before: the new ones count"
    state.event(now, "Warning", "ListingsRenumbered", text)


def _still_behind(state: PodState, given: Pod) -> bool:
    """Say whether the pod's volumes are still out of date: the pod has changed since the step received it."""
    return state.volumes_behind and given != state.allocated_pod


def _done(state: PodState, step: Step, result: StepResult, now: datetime) -> None:
    """Remember the effects of a successful step on the next decision; the view has the step's listing already."""
    match step.input:
        case StartContainer():
            state.waiting = _without(state.waiting, step.container)
            holds.uncount(state, step.container)
            state.missing_images = tuple(name for name in state.missing_images if name != step.container)
            resizing.started(state, step.container)
        case PullImage():
            _pulled(state, step)
        case KillPod(final=final):
            _killed(state, final=final)
        case CreateSandbox(pod=given):
            state.adopting = False
            state.waiting = {}
            state.volumes_behind = _still_behind(state, given)
            resizing.sandbox_made(state)
        case SyncVolumes(pod=given):
            state.volumes_behind = _still_behind(state, given)
        case ResizePod() as resize:
            resizing.applied(state, resize)
        case AllocateResources() as asked if result.allocation is not None:
            resizing.answered(state, asked, result.allocation, now, outdated=step.outdated)


def _pulled(state: PodState, step: Step) -> None:
    state.waiting = _without(state.waiting, step.container)
    if not _still_wants(state, step, step.container):
        return
    image = state.container(step.container).image
    same = [name for name in state.missing_images if state.container(name).image == image]
    state.missing_images = tuple(name for name in state.missing_images if name not in same)
    state.pulled = {**state.pulled, step.container: state.next_restart(step.container)}


def _killed(state: PodState, *, final: bool) -> None:
    state.stopped_sandboxes = tuple(sandbox.id for sandbox in state.observed.sandboxes if not sandbox.ready)
    state.terminated = state.ending and not something_to_stop(state.observed, state.stopped_sandboxes)
    if not state.ending:
        state.kill_by = None
    if final:
        state.finished = True


def _still_wants(state: PodState, step: Step, name: str) -> bool:
    """Say whether the pod still has the container, with the image that the step pulled for it."""
    asked = step.input.pod if isinstance(step.input, PullImage | CreateSandbox) else state.pod
    wanted = _images(state.pod)
    return name in wanted and wanted[name] == _images(asked).get(name, wanted[name])


def _images(pod: Pod) -> dict[str, str]:
    spec = pod.spec
    every = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    return {container.name: container.image for container in every}


def failed_step(
    state: PodState, step: Step, fault: str, message: str, payload: Any, started: datetime, now: datetime
) -> None:
    """Fold a step's failure into the state: the listing it returned, an event, and the earliest time of a retry."""
    has_events, message = False, clipped(message)
    took = int((now - started) / timedelta(milliseconds=1))
    if payload is not None:
        try:
            result = StepResult.model_validate(payload)
            took = _took(started, now, result)
            with state.all_or_nothing():
                _look(state, step, result, started, now)
            has_events = bool(result.events)
            if result.rejection is not None:
                verdicts.reject_pod(state, step, result.rejection, now)
                state.note(
                    now,
                    "step",
                    step.name.value,
                    f"{step.why}: {message}",
                    outcome=result.rejection.reason,
                    took_ms=took,
                )
                return
        except ValueError as wrong:
            state.reject(now, step.name.value, f"the step's status cannot be read: {wrong}")
    verdicts.take_back_rejection(state, step)
    if fault == Fault.POST_START_HOOK_ERROR and isinstance(step.input, StartContainer):
        failed = FailedHook(container=step.container, restart=step.input.restart, message=message)
        state.failed_hooks = (*state.failed_hooks, failed)[-FAILED_HOOKS_KEPT:]
    if not _ended_by_start(state, step, fault):
        state.backoff = backoff.record_failure(state.backoff, step.key, now=now, reason=fault, message=message)
    holds.uncount(state, step.container)
    failure = STEPS[step.name].failure
    if failure.is_waiting_reason:
        state.waiting = {**state.waiting, step.container: WaitingReason(reason=fault, message=message)}
    if step.name == StepName.RESIZE_POD:
        resizing.failed(state, message, now)
    elif not has_events:
        state.event(now, "Warning", *failure.event(fault, message), step.container)
    # A hook's output is shown only in the status.
    why = step.why if fault == Fault.POST_START_HOOK_ERROR else f"{step.why}: {message}"
    about = {"container": step.container, "fact": step.fact}
    state.note(now, "step", step.name.value, why, outcome=fault, took_ms=took, **about)


def _ended_by_start(state: PodState, step: Step, fault: str) -> bool:
    """Say whether a failed start has ended its instance.

    It has if the runtime refused the start, or if the postStart hook failed and the container was killed for it. Then
    only the crash-loop back-off of that exit applies.
    """
    if not isinstance(step.input, StartContainer):
        return False
    last = state.last_exit(step.container)
    if last is None or last.restart != step.input.restart:
        return False
    return last.reason == START_ERROR or fault == Fault.POST_START_HOOK_ERROR


def cancelled_step(state: PodState, step: Step, started: datetime, now: datetime) -> None:
    """Record that a step was cancelled before it changed anything."""
    holds.uncount(state, step.container)
    took = int((now - started) / timedelta(milliseconds=1))
    about = {"container": step.container, "fact": step.fact}
    state.note(now, "step", step.name.value, step.why, outcome="cancelled", took_ms=took, **about)


def _without(table: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}
