"""What is decided: one step, or what holds it back; and the back-off that each failure leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from syncpod.lifecycle import backoff
from syncpod.lifecycle.backoff import BackoffStore
from syncpod.lifecycle.observed import Seq
from syncpod.lifecycle.status import PodFailure
from syncpod.messages import StepInput, StepName
from workflows.pod.state import PodState


@dataclass(frozen=True)
class Step:
    """One step, ready to be taken."""

    name: StepName
    input: StepInput
    summary: str
    """For the Temporal UI and the history: what and why, at most 200 bytes."""
    why: str
    container: str = ""
    key: str = ""
    """Under which its failures back off."""
    store: BackoffStore | None = None
    """The back-offs as they are once the step begins, where beginning it changes them."""
    cleared: str = ""
    """The exit (runtime id) for which the container's back-off has been passed."""
    resets: bool = False
    """It removes what there is of the pod's containers, so that all of them run anew."""
    begins_anew: bool = False
    """It is the first step of a pod of which all containers run anew."""
    known: Seq = field(default_factory=Seq)
    """The newest listing that was known when the step began: what the step lists itself is newer."""
    outdated: bool = False
    """What it has asked the node for is no longer what is desired."""
    replaces: str = ""
    """The instance (runtime id) that the step ends only so that another follows, though by its policy it might rest."""


@dataclass(frozen=True)
class Hold:
    """Something that would be done but for a back-off."""

    subject: str
    """Container name, or the step's name where no container is meant."""
    restart: int
    until: datetime | None
    """None = it ends only by an operator's word."""
    delay: timedelta
    reason: str
    """`CrashLoopBackOff`, `ImagePullBackOff`, `RestartLimitReached`, or the fault's reason."""
    message: str


@dataclass(frozen=True)
class Decision:
    """What to do: a step, or nothing until the earliest of the holds."""

    step: Step | None = None
    holds: tuple[Hold, ...] = ()
    plan: tuple[str, ...] = ()
    """All that is to be done, `step` first unless it is held, as `start_container web`; for the history."""
    failure: PodFailure | None = None
    """Instead of both: the verdict that the whole pod has failed."""

    @property
    def deadline(self) -> datetime | None:
        """When the earliest hold ends; None = nothing to wait for but signals."""
        return min((hold.until for hold in self.holds if hold.until is not None), default=None)


def unless_held(state: PodState, step: Step, now: datetime) -> Decision:
    """Return a step as what is decided, or the hold that its earlier failures impose."""
    subject = step.container or step.name.value
    restart = state.next_restart(step.container) if step.container else 0
    held = failure_hold(state, step.key, subject, restart, now)
    return Decision(holds=(held,)) if held else Decision(step)


def failure_hold(state: PodState, key: str, subject: str, restart: int, now: datetime) -> Hold | None:
    """Return the hold that an earlier failure under `key` still imposes, unless a signal has released it."""
    until = backoff.held_until(state.backoff, key, now=now)
    if until is None or is_released(state, subject, restart, until):
        return None
    entry = state.backoff.entries[key]
    return Hold(subject, restart, until, entry.delay, entry.reason, entry.message)


def is_released(state: PodState, subject: str, restart: int, until: datetime | None) -> bool:
    """Say whether a signal has ended a back-off: an operator's all of a subject, the queue's those that end by then.

    What is held twice, by a crash loop and by a start that has failed, is held until the later of the two is over.
    """
    over = state.over.get(subject)
    return state.released.get(subject) == restart or (over is not None and until is not None and until <= over)


def clip(text: str) -> str:
    """Cut a summary at 200 bytes: the server keeps no more."""
    raw = text.encode()
    return text if len(raw) <= 200 else raw[:197].decode(errors="ignore") + "…"
