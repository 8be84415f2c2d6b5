"""Finds steps that are done again and again and change nothing, and gives them a back-off as for failures.

The node and the workflow then disagree: a runtime lists a container but answers its removal as if it were gone, or the
node counts a kill as done that the workflow still wants. A failed step waits, but a successful one would be taken again
at once, dozens of times a second.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Final

from syncpod.lifecycle import backoff
from syncpod.lifecycle.actions import StepName
from syncpod.messages.step_table import STEPS
from workflows.pod.decision import Step
from workflows.pod.state import PodState, Repetition

REPEATED: Final = frozenset({StepName.KILL_POD, StepName.KILL_CONTAINER, StepName.REMOVE_CONTAINER})
"""The steps whose effect shows in the next listing, or in the end of the workflow."""
AT_ONCE: Final = 5
"""How many times in a row such a step is repeated at once. The kubelet waits before each repetition (pod_workers.go,
v1.36, completeWork)."""
NO_EFFECT: Final = "NoEffect"
"""The reason of the back-off."""


def settle(state: PodState, step: Step, now: datetime, *, done: bool) -> None:
    """Forget the back-off of a step that has not failed; record a failure if it was done too often without a change.

    Call this once the step's listing is in the view, and before the step's other effects. A step that is not `done` was
    given up, and does not count.
    """
    state.repeated = _counted(state, step) if done else Repetition()
    if state.repeated.times <= AT_ONCE:
        state.backoff = backoff.forget(state.backoff, step.key)
        return
    message = f"done {state.repeated.times + 1} times, and nothing has changed ({step.why})"
    state.backoff = backoff.record_failure(state.backoff, step.key, now=now, reason=NO_EFFECT, message=message)
    state.event(now, "Warning", *STEPS[step.name].failure.event(NO_EFFECT, message), step.container)


def _counted(state: PodState, step: Step) -> Repetition:
    """Return the repetition after this step: one more if the step before it was the same and left the same view."""
    if step.name not in REPEATED:
        return Repetition()
    view = state.observed.model_dump_json(exclude={"seq", "observed_at"})
    done = hashlib.sha256("\n".join((step.name, step.container, step.why, view)).encode()).hexdigest()
    before = state.repeated
    return Repetition(done=done, times=before.times + 1 if before.done == done else 0)
