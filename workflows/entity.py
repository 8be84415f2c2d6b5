"""The shared part of the workflows of pods, nodes and fleets: take in signals and updates, wait, and leave the run.

::

    signals, updates ──► inbox ──► take_in ──► the workflow's own decision ──► wait (for the inbox, or for one timer)
                           ▲                                                     │
                           └─────────────────────────────────────────────────────┘

A workflow has one :class:`Entity`. State, decisions and reports belong to the workflow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.version import decisions_of, too_old
    from syncpod.messages.command_table import RENEW, Copies, SignalSpec, UpdateSpec
    from syncpod.messages.signature import PURPOSE
    from syncpod.messages.signed import OVERTAKEN, RESULT, Accepted, Commands, Refused, plain
    from workflows.alarm import Alarm
    from workflows.rejections import sentence

PAUSE: Final = timedelta(milliseconds=1)
"""The shortest timer: it ends a workflow task and begins the next one."""

LONGEST_EVENTS: Final = 1000
LONGEST_BYTES: Final = 512 * 1024
"""A run continues as new once its history has this many events, or has grown by this many bytes.

A worker without the run in its cache must replay the whole history, which takes a busy machine about a second per
hundred events. The server suggests continue-as-new only from 4,096 events or 4 MiB on. The size at the beginning does
not count: otherwise a run with a large snapshot would continue as new at once, and do nothing else."""
SNAPSHOTS: Final = 2
"""A run's history may always grow by this many times its first size: one message to a node of a fleet may be as large
as the run's snapshot."""


class Signal(NamedTuple):
    """A signal's name and its payloads."""

    name: str
    args: tuple[Any, ...]


class Inbox(Protocol):
    """Waiting signals, in order of arrival."""

    def __len__(self) -> int:
        """Return how many signals are waiting."""

    def put(self, name: str, args: tuple[Any, ...]) -> None:
        """Add a signal."""

    def take(self, most: int | None = None) -> list[Signal]:
        """Remove and return the first signals, no more than `most`; None means all."""


class SignalQueue:
    """An inbox that keeps every signal; adding one takes constant time. The workflows of a fleet use it."""

    def __init__(self) -> None:
        self._pending: list[Signal] = []

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, name: str, args: tuple[Any, ...]) -> None:
        """Add a signal."""
        self._pending.append(Signal(name, tuple(args)))

    def take(self, most: int | None = None) -> list[Signal]:
        """Remove and return the first signals, no more than `most`; None means all."""
        taken, self._pending = self._pending[:most], self._pending[most:] if most is not None else []
        return taken


class Run(Protocol):
    """The part of a workflow's state that an entity reads."""

    decision_version: int
    max_events: int
    accepted: Accepted


class Snapshot(Protocol):
    """The state of a workflow: a pydantic model that is carried from run to run."""

    decision_version: int

    def model_dump(self, *, mode: str, exclude_defaults: bool) -> dict[str, Any]:
        """Return the state as JSON."""


class Handlers(Protocol):
    """The work that an entity leaves to its workflow."""

    def absorb(self, name: str, args: tuple[Any, ...]) -> None:
        """Fold one signal into the state; never raises."""

    def on_cancel(self) -> None:
        """Handle a request to cancel the workflow."""

    def is_at_rest(self) -> bool:
        """Say whether no step is under way."""

    def refuse(self, name: str, why: str) -> None:
        """Show that a signal was not accepted, and why."""


class Entity:
    """One run of an entity workflow, which lives as long as its subject: a pod, a node or a part of a fleet."""

    def __init__(self, owner: Handlers, state: Run, inbox: Inbox, commands: Commands, *, part: int) -> None:
        """Take at most `part` signals in one workflow task; `commands` decides which commands are accepted."""
        self.inbox = inbox
        self._commands = commands
        self.alarm = Alarm()
        self._owner, self._state, self._part = owner, state, part
        self._woken = False
        self._is_renewal_asked_for = False
        self._leaving: asyncio.Task[None] | None = None
        # Replay: this is read in ``__init__``, where every replay finds the same value: the size at the first task,
        # with the run's input.
        self._begun_with = workflow.info().get_current_history_size()

    # --- what comes in ------------------------------------------------------------------------------------------------

    def put(self, name: str, args: Sequence[Any]) -> None:
        """Collect one signal that the workflow gives itself; never awaits or raises."""
        self.inbox.put(name, tuple(args))

    def receive(self, signal: SignalSpec[Any], args: Sequence[Any]) -> None:
        """Collect one signal, unless it is refused; never awaits or raises. `renew` takes effect at once."""
        if signal.copies is Copies.REFUSED:
            if not self.is_accepted(signal, args):
                return
        elif refusal := self._commands.refusal_of(f"signal/{signal.name}", args, signal.example):
            self.refuse(signal.name, refusal)
            return
        if signal.name == RENEW.name:
            self.renew()
        else:
            self.put(signal.name, [plain(each) for each in args])

    def is_accepted(self, signal: SignalSpec[Any], args: Sequence[Any]) -> bool:
        """Say whether a signal is accepted. Record an accepted one, so that copies are refused; show a refused one."""
        # Replay: a signature is judged in the same way in each replay (syncpod.temporal.signing).
        purpose = f"signal/{signal.name}"
        self._state.accepted, refusal = self._commands.checked(self._state.accepted, purpose, args, signal.example)
        if refusal:
            self.refuse(signal.name, refusal)
        return not refusal

    def refuse(self, name: str, why: str) -> None:
        """Make the workflow show that a signal was not accepted, and why."""
        self._owner.refuse(name, why)
        self.wake()

    def allow(self, update: UpdateSpec[Any], args: Sequence[Any]) -> tuple[Any, ...]:
        """Return an update's arguments, for its validator. Raises ApplicationError if the update is refused."""
        return self._opened(update, args)[1]

    def obey(self, update: UpdateSpec[Any], args: Sequence[Any]) -> tuple[Any, ...]:
        """Record an update, so that copies are refused; return its arguments for its handler. Raises as `allow`."""
        self._state.accepted, opened = self._opened(update, args)
        return opened

    def _opened(self, update: UpdateSpec[Any], args: Sequence[Any]) -> tuple[Accepted, tuple[Any, ...]]:
        before, purpose = self._state.accepted, f"update/{update.name}"
        accepted, refusal = self._commands.checked(before, purpose, args, update.example)
        if refusal and self._commands.is_overtaken(before, purpose, args):
            raise ApplicationError(refusal, type=OVERTAKEN, non_retryable=True)
        if refusal:
            raise invalid(refusal)
        return accepted, tuple(plain(each) for each in args)

    def wake(self) -> None:
        """Make the workflow decide again, because of a change that no signal reports."""
        self._woken = True

    def renew(self) -> None:
        """Make the run continue as new at its next quiet point."""
        self._is_renewal_asked_for = True
        self.wake()

    async def take_in(self) -> None:
        """Absorb all pending signals, in order of arrival; a large backlog is split over several workflow tasks.

        The SDK fails a workflow task that computes for two seconds, and would fail it again at each try.
        """
        self._absorb_part()
        while self.inbox:
            await self.end_task(f"{len(self.inbox)} signals are yet to be taken")
            self._absorb_part()

    def _absorb_part(self) -> None:
        self._woken = False
        for name, args in self.inbox.take(self._part):
            self._owner.absorb(name, args)

    async def change(self, change: Callable[[], object]) -> None:
        """Absorb the pending signals, then carry out an accepted update. Raises ApplicationError, like `attempt`."""
        await self.take_in()
        self.wake()
        self.attempt(change)

    def attempt(self, change: Callable[[], object]) -> None:
        """Run a change. Any exception becomes an ApplicationError, which refuses or fails the update."""
        try:
            change()
        except Exception as wrong:  # noqa: BLE001
            # Replay: any other exception from an update's handler would fail the workflow task, forever.
            raise invalid(sentence(wrong)) from None

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def wait(self, may_end: Callable[[], bool]) -> None:
        """Wait until a signal is in the inbox, `wake` was called, the alarm has rung, or `may_end` returns True."""
        await self.until(lambda: bool(self.inbox) or self._woken or self.alarm.rang or may_end())
        self.alarm.acknowledge()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait for a condition. A cancellation meanwhile calls the owner's `on_cancel`, and the wait goes on."""
        while not ready():
            try:
                await workflow.wait_condition(ready)
            except asyncio.CancelledError:
                # The run goes on, so code that checks `Task.cancelling` later must not find its task cancelled.
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
                self._owner.on_cancel()

    async def end_task(self, why: str) -> None:
        """End the workflow task, which hands its commands to the server; the UI shows `why`."""
        pause = asyncio.create_task(workflow.sleep(PAUSE, summary=why))
        await self.until(pause.done)

    # --- leaving the run ----------------------------------------------------------------------------------------------

    def is_quiet(self) -> bool:
        """Say whether nothing is pending or under way and no handler runs: only then may a run be left."""
        return not self._has_news() and self._owner.is_at_rest() and workflow.all_handlers_finished()

    def is_due(self) -> bool:
        """Say whether the run should continue as new: for its length, a worker's newer decisions, or a request.

        Replay: call it only after an event of the history has woken the workflow, never within a wait's condition. A
        task whose only update is refused leaves no event in the history, but the size, which is read here, may have
        grown during that task. So a condition could become true in that task, and not in a replay.
        """
        info, limit = workflow.info(), self._state.max_events
        added = info.get_current_history_size() - self._begun_with
        return (
            info.is_continue_as_new_suggested()
            or info.get_current_history_length() >= (limit or LONGEST_EVENTS)
            or added >= max(LONGEST_BYTES, SNAPSHOTS * self._begun_with)
            or self._is_renewal_asked_for
            or self._state.decision_version < decisions_of(info.get_current_build_id())
        )

    async def is_still_quiet_in_the_next_task(self) -> bool:
        """End the workflow task, and say in the next one whether the run may still be left.

        The SDK delivers a task's signals first, and its cancellation only after the code that the signals woke has run.
        A run that continues as new in between loses the cancellation. So this waits for a timer, whose end is delivered
        together with the cancellation.
        """
        if self._leaving is None or self._leaving.done():
            self._leaving = asyncio.create_task(workflow.sleep(PAUSE, summary="the workflow continues as new"))
        leaving = self._leaving
        await self.until(lambda: leaving.done() or self._has_news())
        return leaving.done() and self.is_quiet()

    def _has_news(self) -> bool:
        return bool(self.inbox) or self._woken


class TooOld(Exception):
    """A history began with decisions that this tree does not have. The text is the reason and the remedy."""


def decisions_taken() -> int:
    """Return the version of this run's decisions. Call it in ``__init__`` of a workflow.

    Raises TooOld during the replay of a history with decisions that this tree does not have. The workflow task fails
    with that sentence, which the SDK logs as a warning. The pod belongs to its runtime and keeps running. Failing the
    run would be worse: the node kills the containers of a pod whose workflow has ended.
    """
    info = workflow.info()
    # Replay: in ``__init__`` this is the build id of the worker that took the first task: the history records it. Later
    # it is the build id of the current task.
    decisions = decisions_of(info.get_current_build_id())
    if (refusal := too_old(decisions)) and workflow.unsafe.is_replaying():
        raise TooOld(
            f"workflow {info.workflow_id} cannot go on here: {refusal}. "
            "Begin it anew: a pod by `syncpod adopt --force`, a node by ending its workflow"
        )
    return decisions


def next_input(state: Snapshot) -> dict[str, Any]:
    """Return the input of the run that follows a run with this state."""
    snapshot = state.model_dump(mode="json", exclude_defaults=True)
    return {"snapshot": snapshot, "decisions": state.decision_version}


def invalid(why: str) -> ApplicationError:
    """Return the error that refuses an input, an update or a whole run."""
    return ApplicationError(why, type="Invalid", non_retryable=True)


def decoded(result: RawValue) -> Any:
    """Return a step's result as JSON; None if it cannot be decoded, for example if a person completed the activity.

    Where results are signed, a result that is not signed, or was signed for another purpose, becomes a `Refused`.
    """
    purpose = result.payload.metadata.get(PURPOSE, RESULT.encode()).decode(errors="replace")
    if purpose != RESULT:
        return Refused(f"it was signed as {purpose}")
    try:
        return workflow.payload_converter().from_payload(result.payload)
    except Exception:  # noqa: BLE001  # a converter may raise anything, and this result stays in the history
        return None


def worker_function(name: str) -> Callable[..., Any] | None:
    """Return the worker's function of this name (`syncpod.messages.worker_functions`).

    None if the worker has no such function, and during a replay. Replay: no call may lead to a command of the workflow
    or change its state, since a replay makes none of these calls.
    """
    if workflow.unsafe.is_replaying():
        return None
    return workflow.extern_functions().get(name)
