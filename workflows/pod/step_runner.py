"""Begins single steps of one pod's run, cancels them, and folds their outcomes into the state.

The order of the steps is in `workflows/pod/pipelining.py`. An update does not cancel a running step. A deletion cancels
steps that can be interrupted. A call that was already sent to the runtime runs to its end in the activity, which then
returns its outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from temporalio import workflow
from temporalio.common import Priority, RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.actions import StepName
    from syncpod.lifecycle.phase import TERMINAL_PHASES
    from syncpod.messages.signed import Refused, unsigned
    from syncpod.messages.step_table import STEPS, Interruption
    from workflows.alarm import Alarm
    from workflows.entity import Entity, decoded
    from workflows.pod import (
        decide,
        outcome,
        report,
        resizing,
        restart_of_all,
        temporal_ui,
        verdicts,
    )
    from workflows.pod.decision import Decision, Step, UnderWay
    from workflows.pod.display import Display
    from workflows.pod.state import PodState
    from workflows.pod.worker_hooks import WorkerHooks

HEARTBEAT_TIMEOUT = timedelta(seconds=30)
"""Three intervals between the heartbeats of a waiting step, so that even a busy machine keeps the timeout. If the
server dies while it hands a step to the worker, the step is retried after this time. No shorter timeout is needed. At
boot, a new worker fails the steps of the last one (`syncpod.agent.takeover.pods`). And a worker heartbeats each second
for a step that must be cancelled (`syncpod.temporal.step_cancellation`)."""

RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=5)
)
"""Temporal retries only transport faults: quickly at first, then every five seconds without limit, until the runtime
comes back or the pod's deletion cancels the step. Pod-level faults are non-retryable. They come back to the workflow,
which decides on a visible back-off."""

TOO_LONG = 10_000
"""A run whose history has this many events cancels its pulls and continues as new between two steps, although the pod
is not at rest. A pod may never rest, and the server terminates a run of 51,200 events."""

TOO_LARGE = 8 * 1024 * 1024
"""The size of a history, in bytes, with the same effect as :data:`TOO_LONG`. The server terminates a run of 50 MB; a
run begins with at most 2 MiB."""

TOGETHER: Final = 4
"""The most pulls begun in one workflow task: each has the whole pod as input, and a task may send 4 MiB."""

GUARANTEE: Final = timedelta(seconds=1)
"""How long after a back-off's end the workflow's own timer rings. The node's queue signals that end; the timer helps
only if the signal was lost."""


@dataclass
class Begun:
    """A step that has begun."""

    step: Step
    activity: workflow.ActivityHandle[Any]
    at: datetime
    kill_by: datetime | None
    """The end of the pod's grace when the step began; None if the pod was not being killed."""
    is_cancelled: bool = False


class Pull(NamedTuple):
    """A pull that runs concurrently with the pod's other steps."""

    image: str
    task: asyncio.Task[None]


def is_overlong(state: PodState) -> bool:
    """Say whether this run must continue as new although its pod is not at rest."""
    info = workflow.info()
    is_long = info.get_current_history_length() >= TOO_LONG or info.get_current_history_size() >= TOO_LARGE
    return is_long and not state.removed


def arm(state: PodState, alarm: Alarm, decision: Decision) -> None:
    """Set the run's one timer to the earliest deadline."""
    held, expiry = decision.deadline, verdicts.expiry(state)
    # The node's queue signals the end of a back-off; only this timer rings when the pod's deadline is over.
    due = [at for at in (held and held + GUARANTEE, expiry) if at is not None]
    deadline = min(due, default=None)
    summary = temporal_ui.timer_summary(state, decision.holds, held if deadline != expiry else None)
    alarm.set(deadline, summary)


class StepRunner:
    """Begins the steps of one run, awaits them, and folds their outcomes into the state."""

    def __init__(self, state: PodState, entity: Entity, display: Display, worker_hooks: WorkerHooks) -> None:
        """Prepare to run steps of the pod of `state`."""
        self.state, self.entity, self.display, self.worker_hooks = state, entity, display, worker_hooks
        self.pulls: dict[str, Pull] = {}
        self.are_pulls_cancelled = False

    async def look(self, *steps: Step) -> None:
        """Absorb the signals that have come in while the steps run, and show the resulting status; decide nothing.

        If the pod reaches a terminal phase meanwhile, perhaps by this very step, that is shown only after the step.
        """
        await self.entity.take_in()
        verdicts.expire(self.state, workflow.now())
        state = self.state
        before, was_over = (state.status, state.reached, state.terminated), state.reached in TERMINAL_PHASES
        report.update_status(self.state, self.display.holds, workflow.now(), under_way=[step.input for step in steps])
        if state.reached in TERMINAL_PHASES and not was_over:
            state.status, state.reached, state.terminated = before
        self.display.write_attributes()
        self.display.show()
        if verdicts.expiry(self.state) is not None:
            arm(self.state, self.entity.alarm, Decision())

    async def pull(self, step: Step) -> None:
        """Begin a pull concurrently with everything else: only its own container waits for it.

        It is cancelled when the pod must end, or when another image is desired for the container. It is also cancelled
        when the run has become too long to wait for it. Then the next run begins it again.
        """
        image = self.state.container(step.container).image

        def must_stop() -> bool:
            return self.are_pulls_cancelled or self.must_end() or self.state.container(step.container).image != image

        begun = self.schedule(step)

        async def run() -> None:
            await self.finish(begun, must_stop)
            # Replay: nothing is awaited between the outcome and this line, or the image could be pulled twice.
            del self.pulls[step.container]
            self.entity.wake()

        self.pulls[step.container] = Pull(image, asyncio.create_task(run()))
        if len(self.pulls) % TOGETHER == 0:
            await self.entity.end_task(f"{len(self.pulls)} images are being pulled")

    def schedule(self, step: Step) -> Begun:
        """Begin a step."""
        spec = STEPS[step.name]
        began = workflow.now()
        if step.name == StepName.KILL_POD:
            self.display.write_attributes(rests=True)  # a kill may take the whole grace: show the pod before that
        summary = temporal_ui.step_summary(self.state, step)
        argument = decide.record_step(self.state, step, began)
        if step.resets:
            self.state.restart_all = restart_of_all.reset_by(self.state, step.input)
        if step.replaces:
            self.state.replacing = {step.replaces: False} | self.state.replacing
        self.display.under_way[step.name, step.container] = UnderWay(step.name.value, step.container, summary, began)
        self.display.show()
        activity: workflow.ActivityHandle[Any] = workflow.start_activity(
            step.name.value,
            argument,
            start_to_close_timeout=spec.start_to_close,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRY,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            priority=Priority(priority_key=spec.urgency),
            summary=summary,
            result_type=RawValue,  # a result that nobody can decode fails the step, and not the workflow task
        )
        return Begun(step, activity, began, self.state.kill_by)

    def cancel(self, begun: Begun) -> None:
        """Request the cancellation of a step, unless it has ended or its cancellation was requested before."""
        if not begun.is_cancelled and not begun.activity.done():
            begun.is_cancelled = True
            begun.activity.cancel()
            self.worker_hooks.hasten_cancellation()

    async def finish(self, begun: Begun, must_stop: Callable[[], bool], *others: Begun) -> None:
        """Wait for a step's end, and fold its outcome in. Once it must stop, it and `others` are cancelled."""
        step, activity, began = begun.step, begun.activity, begun.at
        # Replay: `must_stop` is called whenever the run wakes, and fails a pod whose deadline has passed. It must
        # depend on nothing but the state and the workflow's time.
        await self.entity.until(lambda: activity.done() or must_stop())
        if not activity.done():
            for each in (begun, *others):
                self.cancel(each)
            await self.entity.until(activity.done)
        del self.display.under_way[step.name, step.container]
        try:
            result = await activity
        except ActivityError as error:
            self.failed(step, error, began)
        except asyncio.CancelledError:
            outcome.cancelled_step(self.state, step, began, workflow.now())
        else:
            if resizing.is_outdated(self.state, step.input):
                step = replace(step, outdated=True)
            returned = decoded(result)
            if isinstance(returned, Refused):
                why = unsigned("the step's result", returned.why)
                outcome.failed_step(self.state, step, "UnsignedResult", why, None, began, workflow.now())
            else:
                outcome.finished_step(self.state, step, returned, began, workflow.now())

    def failed(self, step: Step, error: ActivityError, began: datetime) -> None:
        """Record that a step was cancelled, has timed out, or was refused by the runtime: it is decided again later."""
        cause = error.cause
        if isinstance(cause, CancelledError):
            outcome.cancelled_step(self.state, step, began, workflow.now())
            return
        fault, message, details = type(error).__name__, str(error), None
        if isinstance(cause, ApplicationError):
            fault, message = cause.type or "Error", cause.message
            details = cause.details[0] if cause.details else None
        elif isinstance(cause, TimeoutError):
            fault, message = "Timeout", f"{step.name.value} timed out: {cause.message}"
        outcome.failed_step(self.state, step, fault, message, details, began, workflow.now())

    @property
    def is_ending(self) -> bool:
        """Whether the pod is being deleted or has failed, by the signals absorbed so far."""
        return self.state.deletion is not None or self.state.failure is not None

    def must_end(self) -> bool:
        """Fail the pod if its active deadline has passed; say whether it must end."""
        verdicts.expire(self.state, workflow.now())
        return self.is_ending

    def is_interrupted(self, begun: Begun, *, was_ending: bool) -> bool:
        """Say whether a step whose turn has come must be cancelled.

        `was_ending` is True if the pod was ending before the step.
        """
        match STEPS[begun.step.name].interruption:
            case Interruption.GOES_ON:
                # Only a shorter grace interrupts a kill, which then starts again with the rest of the grace.
                return begun.step.name == StepName.KILL_POD and self.is_grace_shortened(begun)
            case Interruption.GIVES_WAY:
                return not was_ending and self.must_end()
            case Interruption.GIVES_UP:
                return self.must_end()

    def is_grace_shortened(self, kill: Begun) -> bool:
        """Say whether the pod's grace now ends sooner than when a kill began."""
        self.must_end()
        return self.state.kill_by is not None and kill.kill_by is not None and self.state.kill_by < kill.kill_by

    async def cancel_pulls(self) -> None:
        """Cancel the pulls, and wait until none is left."""
        self.are_pulls_cancelled = True
        await self.entity.until(lambda: not self.pulls)
        self.are_pulls_cancelled = False
