"""Signals to a pod and updates of it: the effect of each on the pod's state.

The workflow's handlers only collect signals; they are parsed here. No signal can fail the pod: an invalid one becomes a
rejection, an event that ``describe`` shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from syncpod.journal.records import Fact
from syncpod.lifecycle import backoff, conditions, restart_pacing
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.probing import probe_of
from syncpod.lifecycle.restart import is_sidecar
from syncpod.messages.command_table import Sender
from syncpod.messages.pod_commands import (
    ADD_EPHEMERAL_CONTAINER,
    APPLY,
    BACKOFF_EXPIRED,
    BACKOFF_QUEUE,
    DELETE,
    DELETE_POD,
    EVICT,
    PLEG,
    POD_COMMANDS,
    PROBE,
    RESIZE,
    RESTART,
    SET_CONDITION,
    UPDATE_POD,
)
from syncpod.messages.signals import BackoffExpired, DeletePod, Evict, Pleg, ProbeChanged, Restart, SetCondition
from syncpod.messages.steps import NOT_READY_FAULTS
from syncpod.pod import PodCondition
from workflows.effects import Effect, effects
from workflows.pod import facts, holds, resizing, restart_of_all
from workflows.pod.desired import (
    add_ephemeral_container,
    apply,
    delete,
    require_source,
    resize,
    retry_admission,
)
from workflows.pod.observing import observe, take_probe_result, update_node_facts
from workflows.pod.state import PodState
from workflows.pod.verdicts import evict
from workflows.rejections import Rejected, sentence

QUEUE_TOLERANCE = timedelta(milliseconds=200)
"""How early a signal may report a back-off's end: the node's queue and the server have different clocks."""


@dataclass(frozen=True)
class SignalNote:
    """A line for the pod's history about an accepted signal: its reason, container and fact."""

    reason: str
    container: str = ""
    fact: str = ""
    """A `Fact`. If it is "", a person's signal gets `Fact.ASKED`, and any other signal gets none."""


class _Late(Exception):
    """The signal is about an earlier pod of this name. It is ignored, without a rejection."""


def absorb(state: PodState, name: str, args: tuple[Any, ...], now: datetime) -> None:
    """Fold one signal into the state, or record its rejection. Never raises.

    `name` may also name an update: a run that replaces a stuck one gets the updates that the stuck run accepted.

    Every exception is caught on purpose: a signal stays in the history, so an exception here would fail the same
    workflow task again and again, on every worker.
    """
    try:
        with state.all_or_nothing():
            if name in UPDATES:
                UPDATES[name](state, args, now)
            elif name in SIGNALS:
                _note(state, name, SIGNALS[name](state, args, now), now)
            else:
                raise Rejected("no such signal")
    except _Late:  # no line of history either, since it would read like a rejection
        pass
    except Exception as wrong:  # noqa: BLE001  # Replay: see above
        state.reject(now, name, f"signal {name}: {sentence(wrong)}")


def check(state: PodState, name: str, args: tuple[Any, ...], now: datetime) -> None:
    """Try an update on a copy of the state, before it is in the history. Raises the error that refuses it."""
    if name in _CHECKS:
        _CHECKS[name](state, args, now)
    UPDATES[name](state.model_copy(), args, now)


def _note(state: PodState, name: str, said: Sequence[SignalNote], now: datetime) -> None:
    """Add a line to the pod's history for each :class:`SignalNote` that a signal's effect has returned.

    `syncpod.cli.temporal.operator_signals` waits for the line about the signal that it has sent.
    """
    for line in said:
        fact = line.fact or (Fact.ASKED if POD_COMMANDS.signals[name].sender is Sender.PERSON else "")
        state.note(now, "signal", name, line.reason, container=line.container, fact=fact)


def tidy(state: PodState, now: datetime) -> None:
    """Forget expired back-offs; those of images and of old definitions would otherwise stay forever."""
    settings = state.restart_settings
    current = restart_pacing.restart_keys(state.pod) if settings.limit is not None else ()
    state.backoff = backoff.collect_garbage(state.backoff, now=now, settings=settings, current=current)


# --- signals ----------------------------------------------------------------------------------------------------------


def _update_pod(state: PodState, document: Any, now: datetime) -> Sequence[SignalNote]:
    require_source(state, document, now)
    apply(state, document, now)
    return ()


def _delete_pod(state: PodState, signal: DeletePod, now: datetime) -> Sequence[SignalNote]:
    delete(state, signal, now)
    return ()


def _pleg(state: PodState, signal: Pleg, now: datetime) -> Sequence[SignalNote]:
    uid = signal.status.uid
    if uid and uid != state.pod.metadata.uid:
        raise _Late
    update_node_facts(state, signal.node)
    if uid:
        observe(state, signal.status, now)
    if any(event.type == "RuntimeReady" for event in signal.events):
        _forget_not_ready(state)
    if any(event.type == "Boot" for event in signal.events):
        resizing.retry(state)
        retry_admission(state)
    return ()


def _backoff_expired(state: PodState, signal: BackoffExpired, now: datetime) -> Sequence[SignalNote]:
    """End back-offs of a subject: a signal of the node's queue ends only expired ones, any other signal ends all.

    A subject is a container, or a failed step of the whole pod (`create_sandbox`). Only the queue's signal names the
    restart. A signal with `appeared` comes from the agent, when a missing object has appeared. It may arrive after the
    back-off has ended, so it is ignored if the container already runs or the subject no longer exists.
    """
    newest = state.own.newest(signal.container)
    runs = newest is not None and newest.state == "running"
    subjects = (*_containers(state), *_failed_steps(state))
    if signal.appeared and (runs or signal.container not in subjects):
        return ()
    if signal.restart is None:
        return (_end_all_backoffs(state, signal, subjects, runs=runs),)
    _end_due_backoff(state, signal.container, signal.restart, subjects, now)
    return ()


def _end_due_backoff(state: PodState, subject: str, restart: int, subjects: tuple[str, ...], now: datetime) -> None:
    """Record that the node's queue has ended the back-offs of a subject that are due.

    A late signal, about an earlier restart, has no effect. Only an operator ends a hold at the limit of restarts.
    """
    is_held = subject in (*subjects, backoff.RESTART_ALL) and restart == _number_held(state, subject)
    if is_held and not _is_at_limit(state, subject):
        holds.end_due(state, subject, now + QUEUE_TOLERANCE)


def _end_all_backoffs(state: PodState, signal: BackoffExpired, subjects: tuple[str, ...], *, runs: bool) -> SignalNote:
    """End every back-off of a subject, for an operator or for the agent. Raises Rejected."""
    subject = signal.container
    if subject not in subjects:
        raise Rejected(f"container: is {subject!r}, must be one of {', '.join(sorted(subjects))}")
    is_stuck = backoff.step_key(StepName.KILL_CONTAINER.value, subject) in state.backoff.entries
    if runs and not is_stuck:
        raise Rejected(f"container {subject} runs: there is no back-off to end")
    container = subject if subject in _containers(state) else ""
    holds.end_all(state, subject, _number_held(state, subject))
    if signal.appeared:
        why = f"{signal.appeared} has come or changed: the back-off of {subject} ends"
        return SignalNote(why, container)
    restarting = (*state.pod.spec.init_containers, *state.pod.spec.containers)
    is_part = subject == backoff.RESTART_ALL or subject in [each.name for each in restarting]
    fact = Fact.BACK_OFF_OF_ALL_ENDED if is_part and restart_of_all.release(state) else Fact.BACK_OFF_ENDED
    return SignalNote(f"an operator ends the back-off of {subject}", container, fact)


def _containers(state: PodState) -> tuple[str, ...]:
    """Return the names of all containers of the pod."""
    spec = state.pod.spec
    return tuple(each.name for each in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers))


def _failed_steps(state: PodState) -> tuple[str, ...]:
    """Return the steps of the whole pod that may be held back."""
    steps = [key.removeprefix("step/") for key in state.backoff.entries if key.count("/") == 1]
    if state.allocated is not None:
        # Even without a failure: the node may signal new room before its answer "no room" has arrived.
        steps.append(StepName.ALLOCATE_RESOURCES.value)
    return tuple(steps)


def _number_held(state: PodState, subject: str) -> int:
    """Return the number of the restart that a back-off of the subject delays; 0 for a step of the whole pod."""
    if subject == backoff.RESTART_ALL and state.pending_restart_of_all is not None:
        return state.pending_restart_of_all.number
    return state.next_restart(subject) if subject in _containers(state) else 0


def _is_at_limit(state: PodState, subject: str) -> bool:
    """Say whether a container, or the pod as a whole, waits because it has reached its limit of restarts."""
    status = state.status
    return any(
        known.state.waiting is not None and known.state.waiting.reason == restart_pacing.LIMIT_REACHED
        for known in (*status.init_container_statuses, *status.container_statuses)
        if subject in (known.name, backoff.RESTART_ALL)
    )


def _restart(state: PodState, signal: Restart, _now: datetime) -> Sequence[SignalNote]:
    """Restart running containers, and start the others, without a back-off.

    A container that its restart policy would not restart runs once more. Nothing is started in a pod that is ending.
    Plain init containers and ephemeral containers are never run again.
    """
    if state.ending:
        raise Rejected("the pod is ending or has ended: its containers are not started again")
    if state.rejection is not None:
        raise Rejected("the node has not admitted the pod yet: `syncpod retry` asks it again")
    spec = state.pod.spec
    mains = [container.name for container in spec.containers]
    sidecars = [container.name for container in spec.init_containers if is_sidecar(container)]
    if signal.container and signal.container not in (*mains, *sidecars):
        known = ", ".join(sorted((*mains, *sidecars)))
        raise Rejected(f"container: is {signal.container!r}, must be a main container or a sidecar, one of {known}")
    fact = Fact.BACK_OFF_OF_ALL_ENDED if restart_of_all.release(state) else ""
    names = (signal.container,) if signal.container else mains
    for name in names:
        newest = facts.effective_view(state).newest(name)
        if newest is not None:
            state.replacing = {**state.replacing, newest.id: True}
        if newest is None or newest.state != "running":
            holds.end_all(state, name, state.next_restart(name))
    return [SignalNote(f"an operator restarts {name}", name, fact) for name in names]


def _set_condition(state: PodState, signal: SetCondition, now: datetime) -> Sequence[SignalNote]:
    """Set a condition that another program owns. If it is one of the pod's readiness gates, Ready depends on it."""
    given = PodCondition(type=signal.type, status=signal.status, reason=signal.reason, message=signal.message)
    known = state.status.conditions
    if problem := conditions.foreign_problem(given, known):
        raise Rejected(problem)
    stamped = conditions.stamp(given, known, now=now.replace(microsecond=0), generation=state.pod.metadata.generation)
    state.status = state.status.model_copy(update={"conditions": conditions.with_condition(known, stamped)})
    return (SignalNote(f"{signal.type} is {signal.status}"),)


def _evict(state: PodState, signal: Evict, now: datetime) -> Sequence[SignalNote]:
    if signal.uid != state.pod.metadata.uid:
        raise Rejected(f"uid: is {state.pod.metadata.uid}, not {signal.uid!r}")
    return (SignalNote(f"{signal.reason}: {signal.message}"),) if evict(state, signal, now) else ()


def _probe(state: PodState, change: ProbeChanged, now: datetime) -> Sequence[SignalNote]:
    if change.uid and change.uid != state.pod.metadata.uid:
        raise _Late
    try:
        container = state.container(change.container)
    except KeyError:
        raise Rejected(f"container: the pod has no container {change.container!r}") from None
    if probe_of(container, change.probe) is None or not change.container_id:
        raise Rejected(f"probe: container {change.container} has no {change.probe} probe of {change.container_id!r}")
    if not take_probe_result(state, change, now):
        return ()
    what = f"{change.probe.capitalize()} probe: {change.result}"
    return (SignalNote(what, change.container, f"{change.probe} {change.result}"),)


def _forget_not_ready(state: PodState) -> None:
    for key, entry in state.backoff.entries.items():
        if entry.reason in NOT_READY_FAULTS:
            state.backoff = backoff.forget(state.backoff, key)


SIGNALS: Final[Mapping[str, Effect[PodState, Any, Sequence[SignalNote]]]] = effects(
    Effect(UPDATE_POD, _update_pod),
    Effect(DELETE_POD, _delete_pod),
    Effect(PLEG, _pleg),
    Effect(PROBE, _probe),
    Effect(BACKOFF_EXPIRED, _backoff_expired),
    Effect(BACKOFF_QUEUE, _backoff_expired),
    Effect(RESTART, _restart),
    Effect(SET_CONDITION, _set_condition),
    Effect(EVICT, _evict),
)
"""The effect of each signal, which returns its lines of history. `renew` is absent, since it concerns only the run."""

UPDATES: Final[Mapping[str, Effect[PodState, Any, dict[str, Any]]]] = effects(
    Effect(APPLY, apply),
    Effect(DELETE, delete),
    Effect(RESIZE, resize),
    Effect(ADD_EPHEMERAL_CONTAINER, add_ephemeral_container),
)
"""The effect of each update, which returns the answer."""

_CHECKS: Final[Mapping[str, Effect[PodState, Any, None]]] = effects(Effect(APPLY, require_source))
"""Further checks of an update before it is in the history; the update's effect does not repeat them."""
