"""The holds that back-offs impose, and how a back-off ends before its time.

A back-off (`PodState.backoff`) holds a container or a step until a time. Signals end it sooner: an operator, or the
agent when a missing object appears, ends every back-off of one restart (:func:`end_all`), and the node's queue ends
those that are due (:func:`end_due`). The next step of that container, or of that name, uses the signals up
(:func:`use_up`). A step that leads to a restart counts the exit before that restart (:func:`is_counted`).

Only these functions change `PodState.released`, `over` and `cleared`.
"""

from __future__ import annotations

from datetime import datetime

from syncpod.lifecycle import backoff
from syncpod.lifecycle.exit import Exit
from workflows.pod.decision import Decision, Hold, Step
from workflows.pod.state import PodState


def unless_held(state: PodState, step: Step, now: datetime) -> Decision:
    """Return the decision to take `step`, or the hold that its earlier failures impose."""
    restart = state.next_restart(step.container) if step.container else 0
    held = failure_hold(state, step.key, step.subject, restart, now)
    return Decision(holds=(held,)) if held else Decision(step)


def failure_hold(state: PodState, key: str, subject: str, restart: int, now: datetime) -> Hold | None:
    """Return the hold that an earlier failure under `key` still imposes; None if it is over or a signal ended it."""
    until = backoff.held_until(state.backoff, key, now=now)
    if until is None or is_ended(state, subject, restart, until):
        return None
    entry = state.backoff.entries[key]
    return Hold(subject, restart, until, entry.delay, entry.reason, entry.message)


def is_ended(state: PodState, subject: str, restart: int, until: datetime | None) -> bool:
    """Say whether a signal has ended a back-off that would last until `until`.

    If both a crash loop and a failed start hold a subject, the queue ends only the one that is due: the subject is held
    until the later end.
    """
    due = state.over.get(subject)
    return state.released.get(subject) == restart or (due is not None and until is not None and until <= due)


def end_all(state: PodState, subject: str, restart: int) -> None:
    """End all back-offs of a container's restart, or of a step, however long they still last. A step has restart 0."""
    state.released = {**state.released, subject: restart}


def end_due(state: PodState, subject: str, by: datetime) -> None:
    """End the back-offs of a container or step that end by this time. A longer back-off goes on."""
    state.over = {**state.over, subject: by}


def use_up(state: PodState, subject: str) -> None:
    """Forget the signals that ended a subject's back-offs, since its next step is being taken."""
    state.released = {name: restart for name, restart in state.released.items() if name != subject}
    state.over = {name: by for name, by in state.over.items() if name != subject}


def count(state: PodState, container: str, exit_id: str) -> None:
    """Record that the crash loop of a container has counted an exit, and allows the start after it."""
    state.cleared = {**state.cleared, container: exit_id}


def is_counted(state: PodState, last: Exit) -> bool:
    """Say whether an exit was counted when a step such as a pull began, so that the start itself need not wait."""
    return state.cleared.get(last.name) == last.id


def uncount(state: PodState, container: str) -> None:
    """Forget the counted exit of a container, since its start has succeeded or failed: its crash loop holds again."""
    state.cleared = {name: exit_id for name, exit_id in state.cleared.items() if name != container}
