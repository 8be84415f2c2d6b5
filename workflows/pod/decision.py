"""The result of a decision: one step, or the holds that delay it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from syncpod.journal.records import Fact
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.backoff import BackoffStore
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.observed import Seq
from syncpod.lifecycle.status import PodFailure
from syncpod.messages.steps import StepInput


@dataclass(frozen=True)
class Step:
    """One step, ready to be taken."""

    name: StepName
    input: StepInput
    summary: str
    """What the step does and why, for the Temporal UI."""
    why: str
    container: str = ""
    key: str = ""
    """The key of the back-off of its failures."""
    store: BackoffStore | None = None
    """The back-offs after the step has started, if starting it changes them."""
    cleared: str = ""
    """The exit (runtime id) whose back-off is over."""
    resets: bool = False
    """It removes the existing containers of the pod, so that all of them run again."""
    follows_restart_of_all: bool = False
    """It is the pod's first step after a restart of all containers has removed them."""
    known: Seq = field(default_factory=Seq)
    """The number of the newest listing known when the step began. Every listing of the step itself is newer."""
    cause: KillCause | None = None
    """The cause of the kills in this step; None if it kills nothing."""
    outdated: bool = False
    """The resources that it requested from the node are no longer desired."""
    replaces: str = ""
    """The instance (runtime id) that the step kills only to replace it, even if its policy would not restart it."""

    @property
    def subject(self) -> str:
        """The subject of its holds: its container, or the step's name if it is about no container."""
        return self.container or self.name.value

    @property
    def fact(self) -> str:
        """The fact of its line in the pod's history."""
        return Fact.RESTARTS_ALL if self.resets else ""


@dataclass(frozen=True)
class Hold:
    """Something that a back-off delays."""

    subject: str
    """The container's name, or the step's name if it is about no container."""
    restart: int
    until: datetime | None
    """When the hold ends; None = only an operator can end it."""
    delay: timedelta
    reason: str
    """`CrashLoopBackOff`, `ImagePullBackOff`, `RestartLimitReached`, or the fault's reason."""
    message: str


@dataclass(frozen=True)
class UnderWay:
    """A step that has begun and not ended."""

    step: str
    container: str
    what: str
    """What the step does and why: its summary."""
    since: datetime


@dataclass(frozen=True)
class Decision:
    """The action: take a step, wait until the earliest hold ends, or fail the pod."""

    step: Step | None = None
    holds: tuple[Hold, ...] = ()
    plan: tuple[str, ...] = ()
    """All planned steps, such as `start_container web`, for the history. `step` is the first of them that may be taken
    now, or one that is not planned here: an update of volumes, or a request for resources."""
    failure: PodFailure | None = None
    """The verdict that the whole pod has failed, instead of a step or holds."""

    @property
    def deadline(self) -> datetime | None:
        """When the earliest hold ends; None means that there are only signals to wait for."""
        return min((hold.until for hold in self.holds if hold.until is not None), default=None)
