"""Folds observations into the pod's state: listings of the runtime, and results of probes.

Nothing observed is dropped: every listing is merged into the view, and every exit in it becomes a recorded fact.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from syncpod.journal.records import EventType
from syncpod.lifecycle.exit import KILLED, OUT_OF_MEMORY, STATUS_UNKNOWN, UNKNOWN_EXIT_CODE, Exit
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, merge, order_containers, order_restarts
from syncpod.lifecycle.probing import error_text, failure_text
from syncpod.messages.identity import NodeFacts
from syncpod.messages.signals import ProbeChanged
from syncpod.messages.steps import (
    KillContainer,
)
from workflows.pod import facts
from workflows.pod.decision import Step
from workflows.pod.state import RESTARTS_KEPT, Kill, PodState, age

_INSTANCES_KEPT = 50
"""How many instances keep their probe results while the view lacks them: more than a pod starts at once."""


def update_node_facts(state: PodState, node: NodeFacts) -> None:
    """Take the node facts of a signal or a step's result, if it has any."""
    if node.runtime:
        state.node = node


def observe(state: PodState, listing: ObservedPod, now: datetime) -> None:
    """Merge a listing into the view, and record the starts and exits that it shows for the first time."""
    before, listed_before = state.own, state.observed
    state.observed = merge(state.observed, listing)
    containers = order_restarts(state.observed.containers)
    state.observed = state.observed.model_copy(update={"containers": containers})
    facts.record_disagreements(state, listed_before, listing, now)
    _record_starts_and_exits(state, listing, now)
    facts.remember_what_went(state, before)
    _forget_what_went(state)


def _record_starts_and_exits(state: PodState, listing: ObservedPod, now: datetime) -> None:
    """Record the newest start of each container, and each exit that is new or better known than before.

    A step may report an instance that no listing has any more, after a newer listing was absorbed. Then the view does
    not change, but the instance counts as having run.
    """
    recorded = {exit_.id: exit_ for exit_ in state.exits}
    containers = order_restarts(order_containers((*state.own.containers, *_reported_late(state, listing))))
    # Oldest first, so that the exits are recorded in the order in which they happened.
    for container in reversed(containers):
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
        if _ran_out_of_memory_first(state, ended, at):
            kill = Kill()
        kill = _kill_behind(state, kill, ended, at)
        exit_ = _settled(ended.recorded(at, cause=kill.why, killed_by=kill.cause))
        state.record_exit(exit_)
        if known is not None or not _is_in_history(state, exit_):
            # The containers of an adopted pod may have ended long ago, and the earlier workflow may have reported their
            # ends.
            _record_exit(state, exit_, at if state.adopting else now)
        state.forget_stuck_kills()


def _ran_out_of_memory_first(state: PodState, ended: Exit, at: datetime) -> bool:
    """Return whether the kernel killed a container for lack of memory, within the grace of a kill for a failed probe.

    The kernel kills the probe's command together with the container, and that counts as one more failure of the probe.
    The node itself sends no SIGKILL before the grace is over. `at` is never too early: it is the time at which the end
    was reported, minus the end's age at that time.
    """
    grace_ends = state.probe_graces.get(ended.id)
    is_out_of_memory = (ended.reason, ended.exit_code) == (OUT_OF_MEMORY, KILLED)
    return is_out_of_memory and grace_ends is not None and at < grace_ends


def _is_needless(kill: Kill) -> bool:
    """Return whether a failed probe is the only cause of this kill.

    Such a kill does not count if the container had exited before the kill. A probe's command ends together with its
    container, and that counts as one more failure of the probe. So the kill may be decided after the container has
    ended by itself.
    """
    return kill.cause in (KillCause.LIVENESS, KillCause.STARTUP) and not kill.again


def _kill_behind(state: PodState, kill: Kill, ended: Exit, at: datetime) -> Kill:
    """Return the kill that may have caused an exit at `at`: none if the kill was decided after the exit.

    A late listing, as after a pause of the worker, may lead to the kill of a container that has already ended. `at` is
    never too early. A kill because of a lost sandbox or container always comes after the exit, and still counts.
    """
    if kill.at is None or kill.again or at >= kill.at or kill.cause in (KillCause.SANDBOX, KillCause.STATE_LOST):
        return kill
    # Recorded runs have delayed the next start for such an exit, unless a probe was the cause.
    is_exempt = ended.exit_code in state.restart_settings.exempt
    return kill if is_exempt and not state.ending and not _is_needless(kill) else Kill()


def forget_needless_kill(state: PodState, step: Step) -> None:
    """Forget a kill for a failed probe if the container had ended before the kill began."""
    if isinstance(step.input, KillContainer) and _is_needless(state.killed.get(step.input.target.id, Kill())):
        state.killed = {other: kill for other, kill in state.killed.items() if other != step.input.target.id}


def _settled(exit_: Exit) -> Exit:
    """Return the exit to record. It is an unknown end that quotes the exit if the node ended the container for good.

    Such a container exited at the node's signal, perhaps with 0, but nobody knows how its work would have ended. If the
    exit counted as a success, an init container's successors would start, or a job would succeed.
    """
    if exit_.killed_by != KillCause.LOST_FOR_GOOD:
        return exit_
    message = f"{exit_.cause}; it exited with {exit_.how}"
    return replace(exit_, exit_code=UNKNOWN_EXIT_CODE, reason=STATUS_UNKNOWN, message=message, is_settled=True)


def _reported_late(state: PodState, listing: ObservedPod) -> tuple[ObservedContainer, ...]:
    """Return the ended instances of a listing that are not in the view, in any order.

    Such an instance may be an old one: a reset of the run delivers later signals before the result of an earlier step.
    Once records of exits have been dropped, only instances above the newest recorded number count.
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
    """Drop the bookkeeping about instances and sandboxes that are gone or replaced."""
    present = {container.id for container in (*state.observed.containers, *state.vanished.values())}
    state.killed = {each: kill for each, kill in state.killed.items() if each in present}
    state.probe_graces = {each: ends for each, ends in state.probe_graces.items() if each in present}
    if state.replacing:
        newest = {container.id for container in facts.newest_begun(state).values()}
        state.replacing = {instance: by for instance, by in state.replacing.items() if instance in newest}
    there = {sandbox.id for sandbox in state.observed.sandboxes}
    state.stopped_sandboxes = tuple(sandbox_id for sandbox_id in state.stopped_sandboxes if sandbox_id in there)


def record_stopped(state: PodState, stopped: tuple[Exit, ...], listing: ObservedPod, now: datetime) -> None:
    """Record the ends of containers that are removed already, in the history. No decision depends on these ends.

    A listing may have shown such an end before the removal, or may come late and show it after this call. `listing` was
    made after the removal.
    """
    recorded = {exit_.id for exit_ in state.exits}
    for ended in stopped:
        if ended.id not in recorded:
            kill = _kill_behind(state, state.killed.get(ended.id, Kill()), ended, now - age(listing, ended))
            _note_exit(state, ended.recorded(now, cause=kill.why, killed_by=kill.cause), now)


def _is_in_history(state: PodState, exit_: Exit) -> bool:
    """Return whether the history has this end, from the step that stopped the container and removed it."""
    about = ("exit", exit_.name, exit_.restart, _outcome_of(exit_))
    return any((each.kind, each.subject, each.restart, each.outcome) == about for each in state.history)


def _outcome_of(exit_: Exit) -> str:
    return f"exited {exit_.how}"


def _note_exit(state: PodState, exit_: Exit, now: datetime) -> None:
    about = {"outcome": _outcome_of(exit_), "restart": exit_.restart, "fact": exit_.killed_by}
    state.note(now, "exit", exit_.name, exit_.why, **about)


def _record_exit(state: PodState, exit_: Exit, now: datetime) -> None:
    """Record an exit in the history and as an event, with the reason if we caused it. The kubelet records neither."""
    _note_exit(state, exit_, now)
    kind: EventType = "Normal" if exit_.exit_code == 0 or (exit_.cause and not exit_.is_settled) else "Warning"
    why = f": {exit_.why}" if exit_.why else ""
    state.event(now, kind, "Exited", f"Container {exit_.name} exited with code {exit_.how}{why}", exit_.name)
    if exit_.is_unknown_to_runtime:
        text = f"How container {exit_.name} ended is unknown: neither the runtime nor the node observed its exit"
        state.event(now, "Warning", STATUS_UNKNOWN, text, exit_.name)


def take_probe_result(state: PodState, change: ProbeChanged, now: datetime) -> bool:
    """Take a probe's result for an instance, which may not be in the view yet. Return whether the result has changed.

    Events are those of prober/prober.go.
    """
    failures = max(change.failures, int(change.result == "failure"))
    if change.result == "unknown" and not failures:  # the probe could not be carried out, which is no result
        text = error_text(change.probe, change.message)
        state.event(now, "Warning", "Unhealthy", text, change.container, times=max(1, change.errors))
        return False
    if state.ending and change.probe != "readiness" and change.result != "success":
        return False  # deletion is requested: all other probes count as successes (worker.go, v1.36, doProbe)
    if failures:
        text = failure_text(change.probe, change.failure or change.message)
        state.event(now, "Warning", "Unhealthy", text, change.container, times=failures)
    if change.warning:
        state.event(
            now,
            "Warning",
            "ProbeWarning",
            f"{change.probe.capitalize()} probe warning: {change.message}",
            change.container,
        )
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
    """Return the instances with the latest results. The listing of such an instance may still be on its way."""
    return tuple(results)[-_INSTANCES_KEPT:]
