"""Folds what has happened into the pod's state: listings of the runtime, and results of steps.

Nothing observed is dropped: every listing is merged into the view, and every exit in it becomes a recorded fact.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from syncpod.journal.records import EventType
from syncpod.lifecycle import backoff, conditions, eviction
from syncpod.lifecycle.container_status import WaitingReason
from syncpod.lifecycle.exit import KILLED, OUT_OF_MEMORY, STATUS_UNKNOWN, UNKNOWN_EXIT_CODE, Exit
from syncpod.lifecycle.kill_cause import PRE_STOP_FAILED, KillCause
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, Seq, merge, order_containers, order_restarts
from syncpod.lifecycle.plan import something_to_stop
from syncpod.lifecycle.probing import failure_text
from syncpod.lifecycle.rejection import rejection_message
from syncpod.lifecycle.start_errors import START_ERROR
from syncpod.lifecycle.status import PodFailure
from syncpod.lifecycle.step_name import StepName
from syncpod.lifecycle.termination import moment_after
from syncpod.messages.identity import NodeFacts
from syncpod.messages.signals import Evict, ProbeChanged
from syncpod.messages.sources import is_asked_again
from syncpod.messages.steps import (
    AllocateResources,
    CreateSandbox,
    Fault,
    KillContainer,
    KillPod,
    Outcome,
    PullImage,
    Rejection,
    ResizePod,
    StartContainer,
    StepResult,
)
from syncpod.pod import Pod, PodCondition, PodStatus
from workflows.pod import facts, resizing
from workflows.pod.decide import DEADLINE_EXCEEDED, expiry
from workflows.pod.decision import Step
from workflows.pod.state import FAILED_HOOKS_KEPT, HISTORY_KEPT, RESTARTS_KEPT, FailedHook, Kill, PodState, age, clipped

_INSTANCES_KEPT = 50
"""How many instances keep their probe results while the view lacks them: more than a pod starts at once."""


# --- what the runtime has ---------------------------------------------------------------------------------------------


def update_node_facts(state: PodState, node: NodeFacts) -> None:
    """Take what a signal or a result says about the node, if it says anything."""
    if node.runtime:
        state.node = node


def observe(state: PodState, listing: ObservedPod, now: datetime) -> None:
    """Merge a listing into the view, and record the starts and exits that it shows for the first time."""
    before, listed_before = state.own, state.observed
    state.observed = merge(state.observed, listing)
    containers = order_restarts(state.observed.containers)
    state.observed = state.observed.model_copy(update={"containers": containers})
    facts.tell_disagreements(state, listed_before, listing, now)
    _record_starts_and_exits(state, listing, now)
    facts.remember_what_went(state, before)
    _forget_what_went(state)


def _record_starts_and_exits(state: PodState, listing: ObservedPod, now: datetime) -> None:
    """Record the newest start of each container, and each exit that is new or better known than before.

    A step may report an instance that no listing has any more, after a newer listing was absorbed. Then the view does
    not change, but the instance counts as having run.
    """
    recorded = {exit_.id: exit_ for exit_ in state.exits}
    told = order_restarts(order_containers((*state.own.containers, *_told_late(state, listing))))
    for container in reversed(told):  # oldest first, so that the exits are recorded in the order in which they happened
        if container.has_run:
            newest = max(state.restarts.get(container.name, 0), container.restart_count)
            state.restarts = {**state.restarts, container.name: newest}
        ended = container.exit
        if ended is None or not container.has_run:
            continue
        known = recorded.get(container.id)
        if known is not None and (known.is_settled or not known.is_unknown or ended.is_unknown):
            continue  # an unknown end is recorded again only if more is known about it now
        before = Kill(why=known.cause, cause=known.killed_by) if known is not None else Kill()
        kill = state.killed.get(container.id, before)
        at = now - age(listing, container)
        if _ran_out_of_memory_first(state, ended, at) or (_is_needless(kill) and kill.at is not None and at < kill.at):
            kill = Kill()
        exit_ = _settled(ended.recorded(at, cause=kill.why, killed_by=kill.cause))
        state.record_exit(exit_)
        if known is not None or not _is_told(state, exit_):
            # What is taken over may have ended long ago, and the workflow before may have told that already.
            _tell_exit(state, exit_, at if state.adopting else now)
        state.forget_stuck_kills()


def _ran_out_of_memory_first(state: PodState, ended: Exit, at: datetime) -> bool:
    """Return whether the kernel ended a container, for lack of memory, that was about to be ended for a failed probe.

    The command of a probe is killed together with its container, which then counts as one more failure. The node sends
    no SIGKILL before the grace is over. `at` is never too early: it is the time of the news of the end, minus the end's
    age then.
    """
    grace_ends = state.probe_graces.get(ended.id)
    is_out_of_memory = (ended.reason, ended.exit_code) == (OUT_OF_MEMORY, KILLED)
    return is_out_of_memory and grace_ends is not None and at < grace_ends


def _is_needless(kill: Kill) -> bool:
    """Return whether a container that had ended before it was to be killed did so by itself, despite the decision.

    The command of a probe ends together with its container, which then counts as one more failure.
    """
    return kill.cause in (KillCause.LIVENESS, KillCause.STARTUP) and not kill.again


def _forget_needless_kill(state: PodState, step: Step) -> None:
    """Forget that a failed probe had a container killed that had ended before the kill began."""
    if isinstance(step.input, KillContainer) and _is_needless(state.killed.get(step.input.target.id, Kill())):
        state.killed = {other: kill for other, kill in state.killed.items() if other != step.input.target.id}


def _settled(exit_: Exit) -> Exit:
    """Return the exit that counts. If we ended the container for good, that is an unknown one that quotes the runtime.

    The container exited at our signal, perhaps with 0, but nobody knows how its work would have ended. If that counted
    as a success, an init container's successors would start, or a job would succeed.
    """
    if exit_.killed_by != KillCause.LOST_FOR_GOOD:
        return exit_
    message = f"{exit_.cause}; it exited with {exit_.how}"
    return replace(exit_, exit_code=UNKNOWN_EXIT_CODE, reason=STATUS_UNKNOWN, message=message, is_settled=True)


def _told_late(state: PodState, listing: ObservedPod) -> tuple[ObservedContainer, ...]:
    """Return the ended instances of a listing that are not in the view, in any order.

    One may be older than what is known: a reset puts the signals that came later before the result of a step. Once
    exits have been dropped, it may be one of these.
    """
    seen = {container.id for container in state.own.containers}
    are_all_kept = len(state.exits) < RESTARTS_KEPT
    return tuple(
        each
        for each in listing.containers
        if each.id not in seen
        and each.incarnation in ("", state.incarnation)
        and each.exit is not None
        and (are_all_kept or each.restart_count > state.restarts.get(each.name, -1))
    )


def _forget_what_went(state: PodState) -> None:
    """Drop what is kept about instances and sandboxes that are gone or replaced."""
    present = {container.id for container in (*state.observed.containers, *state.vanished.values())}
    state.killed = {each: kill for each, kill in state.killed.items() if each in present}
    state.probe_graces = {each: ends for each, ends in state.probe_graces.items() if each in present}
    if state.replacing:
        newest = {container.id for container in facts.newest_begun(state).values()}
        state.replacing = {instance: by for instance, by in state.replacing.items() if instance in newest}
    there = {sandbox.id for sandbox in state.observed.sandboxes}
    state.stopped_sandboxes = tuple(sandbox_id for sandbox_id in state.stopped_sandboxes if sandbox_id in there)


def _tell_stopped(state: PodState, stopped: tuple[Exit, ...], now: datetime) -> None:
    """Tell the history how containers ended that are removed already. Nothing follows from that: they start afresh.

    A listing may have shown such an end before the removal, or may come late and show it after this.
    """
    recorded = {exit_.id for exit_ in state.exits}
    for ended in stopped:
        kill = state.killed.get(ended.id, Kill())
        if ended.id not in recorded:
            _note_exit(state, ended.recorded(now, cause=kill.why, killed_by=kill.cause), now)


def _is_told(state: PodState, exit_: Exit) -> bool:
    """Return whether the history has this end, from the step that stopped the container and removed it."""
    about = ("exit", exit_.name, exit_.restart, _outcome_of(exit_))
    return any((each.kind, each.subject, each.restart, each.outcome) == about for each in state.history)


def _outcome_of(exit_: Exit) -> str:
    return f"exited {exit_.how}"


def _note_exit(state: PodState, exit_: Exit, now: datetime) -> None:
    about = {"outcome": _outcome_of(exit_), "restart": exit_.restart, "fact": exit_.killed_by}
    state.note(now, "exit", exit_.name, exit_.why, **about)


def _tell_exit(state: PodState, exit_: Exit, now: datetime) -> None:
    """Record which container ended, how, and why if we ended it, in the history and as an event of our own."""
    _note_exit(state, exit_, now)
    kind: EventType = "Normal" if exit_.exit_code == 0 or (exit_.cause and not exit_.is_settled) else "Warning"
    why = f": {exit_.why}" if exit_.why else ""
    state.event(now, kind, "Exited", f"Container {exit_.name} exited with code {exit_.how}{why}", exit_.name)
    if exit_.is_unknown_to_runtime:
        text = f"How container {exit_.name} ended is not known: the runtime missed it, and nobody else has seen it"
        state.event(now, "Warning", STATUS_UNKNOWN, text, exit_.name)


def take_probe_result(state: PodState, change: ProbeChanged, now: datetime) -> bool:
    """Take a probe's result for an instance, which may not be in the view yet; say whether it is another than before.

    Events are those of prober/prober.go.
    """
    what = f"{change.probe.capitalize()} probe"
    failures = max(change.failures, int(change.result == "failure"))
    if change.result == "unknown" and not failures:  # the probe could not be carried out, which is no result
        text = f"{what} errored and resulted in unknown state: {change.message}"
        state.event(now, "Warning", "Unhealthy", text, change.container)
        return False
    if state.ending and change.probe != "readiness" and change.result != "success":
        return False  # only readiness counts by then (worker.go, v1.36, doProbe: success once deletion is requested)
    if failures:
        text = failure_text(change.probe, change.failure or change.message)
        state.event(now, "Warning", "Unhealthy", text, change.container, times=failures)
    if change.warning:
        state.event(now, "Warning", "ProbeWarning", f"{what} warning: {change.message}", change.container)
    if change.result == "unknown":
        return False
    before = state.probes.get(change.probe, {})
    if before.get(change.container_id) == change.result:
        return False
    present = {container.id for container in state.observed.containers}
    kept = {known: result for known, result in before.items() if known in present or known in _newest(before)}
    state.probes = {**state.probes, change.probe: {**kept, change.container_id: change.result}}
    return True


def _newest(results: dict[str, str]) -> tuple[str, ...]:
    """Return the instances with the latest results. They include those of a listing that is still on its way."""
    return tuple(results)[-_INSTANCES_KEPT:]


# --- verdicts on the whole pod ----------------------------------------------------------------------------------------


def evict(state: PodState, order: Evict, now: datetime) -> bool:
    """Fail the pod and end it within the grace; say so. For a pod that is already ending, only the grace is shortened.

    Mirrors eviction_manager.go, v1.36, evictPod, and pod_workers.go, killPodNow.
    """
    deadline = moment_after(now, order.grace_period_seconds)
    reason, message = clipped(order.reason), clipped(order.message)
    if not state.ending:
        state.failure = PodFailure(reason=reason, message=message)
        if order.disruption:
            _mark_disrupted(state, message, now)
        state.event(now, "Warning", reason, message)
        state.kill_by, state.ends_sooner = deadline, True
        return True
    if state.kill_by is not None:
        state.ends_sooner = state.ends_sooner or deadline < state.kill_by
        state.kill_by = min(state.kill_by, deadline)
    return False


def _mark_disrupted(state: PodState, message: str, now: datetime) -> None:
    """Set the condition that marks an end for the node's sake (eviction_manager.go, v1.36, synchronize)."""
    target = PodCondition(
        type=eviction.DISRUPTION_TARGET, status="True", reason=eviction.TERMINATION_BY_KUBELET, message=message
    )
    known, generation = state.status.conditions, state.pod.metadata.generation
    stamped = conditions.stamp(target, known, now=now.replace(microsecond=0), generation=generation)
    state.status = state.status.model_copy(update={"conditions": conditions.with_condition(known, stamped)})


def expire(state: PodState, now: datetime) -> None:
    """Fail the pod if it has reached its active deadline (active_deadline.go, v1.36)."""
    due = expiry(state)
    if due is not None and due <= now:
        message = "Pod was active on the node longer than the specified deadline"
        state.failure, state.ends_sooner = PodFailure(reason=DEADLINE_EXCEEDED, message=message), True
        state.event(now, "Normal", DEADLINE_EXCEEDED, message)
        state.note(now, "signal", "deadline", f"active for {state.pod.spec.active_deadline_seconds} s")


def unblock_end(state: PodState) -> None:
    """Forget the back-offs of stuck kills if something since the last decision ends the pod, or ends it sooner."""
    if state.ends_sooner:
        state.forget_stuck_kills()
    state.ends_sooner = False


def fail(state: PodState, failure: PodFailure, now: datetime) -> None:
    """Fail the pod: its restarts have reached the limit that it sets, or it has lost its sandbox and gets no other."""
    state.failure, state.ends_sooner = failure, True
    state.event(now, "Warning", failure.reason, failure.message)
    state.note(now, "decision", "fail", f"{failure.reason}: {failure.message}")


def _reject_pod(state: PodState, step: Step, rejection: Rejection, now: datetime) -> None:
    """Fail a pod that its node does not admit (kubelet.go, v1.36, rejectPod), until the node is asked again, if it is.

    Difference: the kubelet does not ask again before it is restarted.
    """
    failure = PodFailure(reason=rejection.reason, message=rejection_message(rejection.message), rejected=True)
    if rejection.final or not is_asked_again(state.pod.metadata):
        state.failure = failure
    else:
        if state.rejection is not None:
            _forget_failed_phase(state)
        state.rejection = failure
        state.backoff = backoff.record_failure(
            state.backoff, step.key, now=now, reason=rejection.reason, message=rejection.message
        )
    state.event(now, "Warning", rejection.reason, rejection.message)


def _admitted(state: PodState, step: Step) -> None:
    """Take back that the pod was rejected, once a step to make its sandbox ends in any other way: it starts now."""
    if isinstance(step.input, CreateSandbox) and state.rejection is not None:
        state.rejection = None
        _forget_failed_phase(state)


def _forget_failed_phase(state: PodState) -> None:
    """Have the status computed as that of a pod that is new: otherwise a terminal phase stays, with its reason."""
    state.status = PodStatus(conditions=state.status.conditions)  # a rejected pod has only those of others


# --- results of steps -------------------------------------------------------------------------------------------------


def finished_step(state: PodState, step: Step, payload: Any, started: datetime, now: datetime) -> None:
    """Fold a step's result into the state. An unreadable result changes nothing, and counts as a failure."""
    try:
        with state.all_or_nothing():
            _fold(state, step, StepResult.model_validate(payload), started, now)
    except ValueError as wrong:
        failed_step(state, step, "UnreadableResult", f"the step's result cannot be read: {wrong}", None, started, now)


def _fold(state: PodState, step: Step, result: StepResult, started: datetime, now: datetime) -> None:
    """Fold in the result of a step that has not failed. Raises ValueError."""
    told, state.history = state.history, ()
    _look(state, step, result, started, now)
    state.backoff = backoff.forget(state.backoff, step.key)
    match result.outcome:
        case Outcome.SPENT:
            _admitted(state, step)
            state.sandbox_floor = max(state.sandbox_floor, getattr(step.input, "attempt", 0) + 1)
        case Outcome.IMAGE_ABSENT:
            state.missing_images = (*state.missing_images, step.container)
        case Outcome.DONE | Outcome.ADOPTED:
            _admitted(state, step)
            _done(state, step)
            if result.over and state.terminated:
                state.removed = True
            if isinstance(step.input, AllocateResources) and result.allocation is not None:
                resizing.answered(state, step.input, result.allocation, now, outdated=step.outdated)
        case Outcome.NOT_BEGUN | Outcome.CANCELLED | Outcome.STOPPING:
            state.cleared = _without(state.cleared, step.container)
    took = _took(started, now, result)
    seen, state.history = state.history, told
    state.note(
        now, "step", step.name.value, _with_hooks(step, result), outcome=result.outcome.value, attempt=result.attempt,
        took_ms=took, container=step.container, fact=step.fact,
    )  # fmt: skip
    # The step's consequences follow it in the history: a container may end before its start has returned.
    state.history = (*state.history, *seen)[-HISTORY_KEPT:]


def _with_hooks(step: Step, result: StepResult) -> str:
    """Return why a step was taken, and what became of the preStop hooks in it."""
    ran = [f"preStop of {', '.join(result.pre_stops)} ran"] if result.pre_stops else []
    failed = [
        f"preStop of {event.container} {event.message.removeprefix('PreStopHook ')}"
        for event in result.events
        if event.reason == PRE_STOP_FAILED
    ]
    return "; ".join((step.why, *ran, *failed))


def _took(started: datetime, now: datetime, result: StepResult) -> int:
    """Return how many milliseconds a step took, without the time in which it waited for the one that began with it."""
    return max(0, int((now - started) / timedelta(milliseconds=1)) - result.idle_ms)


def _look(state: PodState, step: Step, result: StepResult, started: datetime, now: datetime) -> None:
    update_node_facts(state, result.node)
    # The step's own events come before their consequences: a start before the exit, and a kill before the exit.
    said = {each.container for each in state.events if each.reason == "Killing" and each.last and each.last >= started}
    for event in result.events:
        if event.reason != "Killing" or event.container not in said:  # recorded when the kill began
            state.event(now, event.type, event.reason, event.message, event.container)
    if result.ended_before:
        _forget_needless_kill(state, step)
    _follow_numbers(state, step, result, now)
    _tell_stopped(state, result.stopped, now)
    observe(state, result.status, now)
    resizing.partly_applied(state, result.actuated)
    if result.missing_images is not None:
        missing = tuple(name for name in result.missing_images if _still_wants(state, step, name))
        if step.name == StepName.PULL_IMAGE:
            # Another pull may since have brought an image that this one still found missing.
            missing = tuple(name for name in missing if name in state.missing_images)
        state.missing_images = missing


def _follow_numbers(state: PodState, step: Step, result: StepResult, now: datetime) -> None:
    """Accept the current sequence numbers of listings if they have fallen behind those of an earlier agent.

    Otherwise no later listing of the node would count. A step lists after it has started, so its listing is newer than
    what was known at that time, whatever the numbers say.
    """
    listed, known = result.status, step.known
    if not listed.uid or listed.seq.boot >= known.boot:
        return
    state.observed = state.observed.model_copy(update={"seq": Seq()})
    text = f"The node's listings are numbered {listed.seq.boot}, and were {known.boot} before: the new ones count"
    state.event(now, "Warning", "ListingsRenumbered", text)


def _still_behind(state: PodState, step: Step) -> bool:
    """Say whether files that show the pod are still behind: it has changed since it was given to the step."""
    given = getattr(step.input, "pod", None)
    return state.volumes_behind and given != state.allocated_pod


def _done(state: PodState, step: Step) -> None:
    """Remember what a successful step changes for the next decision."""
    match step.name:
        case StepName.START_CONTAINER | StepName.START_INIT_CONTAINER | StepName.START_EPHEMERAL_CONTAINER:
            state.waiting = _without(state.waiting, step.container)
            state.cleared = _without(state.cleared, step.container)
            state.missing_images = tuple(name for name in state.missing_images if name != step.container)
            resizing.started(state, step.container)
        case StepName.PULL_IMAGE:
            _pulled(state, step)
        case StepName.KILL_POD:
            _killed(state, step)
        case StepName.CREATE_SANDBOX:
            state.adopting = False
            state.waiting = {}
            state.volumes_behind = _still_behind(state, step)
            resizing.sandbox_made(state)
        case StepName.SYNC_VOLUMES:
            state.volumes_behind = _still_behind(state, step)
        case StepName.RESIZE_POD if isinstance(step.input, ResizePod):
            resizing.applied(state, step.input)
        case StepName.KILL_CONTAINER | StepName.REMOVE_CONTAINER | StepName.ALLOCATE_RESOURCES | StepName.RESIZE_POD:
            pass  # the listing that the step returns says it all, and so does the node's answer
        case _:
            assert_never(step.name)


def _pulled(state: PodState, step: Step) -> None:
    state.waiting = _without(state.waiting, step.container)
    if not _still_wants(state, step, step.container):
        return
    image = state.container(step.container).image
    same = [name for name in state.missing_images if state.container(name).image == image]
    state.missing_images = tuple(name for name in state.missing_images if name not in same)
    state.pulled = {**state.pulled, step.container: state.next_restart(step.container)}


def _killed(state: PodState, step: Step) -> None:
    state.stopped_sandboxes = tuple(sandbox.id for sandbox in state.observed.sandboxes if not sandbox.ready)
    state.terminated = state.ending and not something_to_stop(state.observed, state.stopped_sandboxes)
    if not state.ending:
        state.kill_by = None
    if isinstance(step.input, KillPod) and step.input.final:
        state.finished = True


def _still_wants(state: PodState, step: Step, name: str) -> bool:
    """Say whether the pod still has the container, and still wants the image that the step was given for it."""
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
    """Fold a step's failure into the state: what was read back, an event, and the earliest time of a retry."""
    told, message = False, clipped(message)
    took = int((now - started) / timedelta(milliseconds=1))
    if payload is not None:
        try:
            result = StepResult.model_validate(payload)
            took = _took(started, now, result)
            with state.all_or_nothing():
                _look(state, step, result, started, now)
            told = bool(result.events)
            if result.rejection is not None:
                _reject_pod(state, step, result.rejection, now)
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
    _admitted(state, step)
    if fault == Fault.POST_START_HOOK_ERROR and isinstance(step.input, StartContainer):
        failed = FailedHook(container=step.container, restart=step.input.restart, message=message)
        state.failed_hooks = (*state.failed_hooks, failed)[-FAILED_HOOKS_KEPT:]
    if not _ended_by_start(state, step, fault):
        state.backoff = backoff.record_failure(state.backoff, step.key, now=now, reason=fault, message=message)
    state.cleared = _without(state.cleared, step.container)
    if isinstance(step.input, StartContainer | PullImage):
        state.waiting = {**state.waiting, step.container: WaitingReason(reason=fault, message=message)}
    if step.name == StepName.RESIZE_POD:
        resizing.failed(state, message, now)
    elif not told:
        state.event(now, "Warning", *_as_event(step, fault, message), step.container)
    # A hook's output is shown only in the status.
    why = step.why if fault == Fault.POST_START_HOOK_ERROR else f"{step.why}: {message}"
    about = {"container": step.container, "fact": step.fact}
    state.note(now, "step", step.name.value, why, outcome=fault, took_ms=took, **about)


def _ended_by_start(state: PodState, step: Step, fault: str) -> bool:
    """Say whether a failed start has ended its instance. Then only the crash-loop back-off of that exit applies.

    That is so if the runtime refused the start, or if the postStart hook failed and the container was killed for it.
    """
    if not isinstance(step.input, StartContainer):
        return False
    last = state.last_exit(step.container)
    if last is None or last.restart != step.input.restart:
        return False
    return last.reason == START_ERROR or fault == Fault.POST_START_HOOK_ERROR


def cancelled_step(state: PodState, step: Step, started: datetime, now: datetime) -> None:
    """Record that a step was cancelled before it changed anything."""
    state.cleared = _without(state.cleared, step.container)
    took = int((now - started) / timedelta(milliseconds=1))
    about = {"container": step.container, "fact": step.fact}
    state.note(now, "step", step.name.value, step.why, outcome="cancelled", took_ms=took, **about)


def _as_event(step: Step, fault: str, message: str) -> tuple[str, str]:
    """Return the event's reason and message for a failure that the step gave none for: a timeout, an unreadable result.

    Mirrors events/event.go, v1.36.
    """
    match step.name:
        case StepName.KILL_POD | StepName.KILL_CONTAINER | StepName.REMOVE_CONTAINER:
            return "FailedKillPod", f"error killing pod: {message}"
        case StepName.CREATE_SANDBOX:
            return fault, message
        case (
            StepName.START_CONTAINER
            | StepName.START_INIT_CONTAINER
            | StepName.START_EPHEMERAL_CONTAINER
            | StepName.PULL_IMAGE
            | StepName.SYNC_VOLUMES
            | StepName.ALLOCATE_RESOURCES
            | StepName.RESIZE_POD
        ):
            return "Failed", f"Error: {message}"
        case _:
            assert_never(step.name)


def _without(table: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}
