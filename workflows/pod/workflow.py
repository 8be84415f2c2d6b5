"""PodWorkflow: one durable run per pod.

::

      signals, updates ──► inbox ──► absorb ──► status ──► next_step ──┬─► a step ──► its result ──┐
                             ▲                                         ├─► a pull, concurrently     │
                             │                                         └─► wait (one timer)        │
                             └─────────────────────────────────────────────────────────────────────┘

The loop takes everything pending, decides once, runs one step, and begins again with the newer view. When nothing may
run, it waits for a signal or for the earliest deadline. An update does not cancel a running step: the step finishes,
and then the loop decides again. A deletion cancels steps that can be interrupted. A call that was already sent to the
runtime runs to its end in the activity, which then returns its outcome.

Workers run this without Temporal's sandbox; its tests run it inside (:mod:`workflows.runner`). Everything that a run
calls decides its commands, so a change there may need another ``DECISION_VERSION`` (docs/upgrading.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from temporalio import workflow
from temporalio.common import Priority, RawValue
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.phase import TERMINAL_PHASES
    from syncpod.lifecycle.step_name import StepName
    from syncpod.messages.applied import Change
    from syncpod.messages.command_table import SignalSpec, UpdateSpec
    from syncpod.messages.identity import POD_WORKFLOW
    from syncpod.messages.pod_card import POD_MEMO, sender_in
    from syncpod.messages.pod_commands import APPLY, DELETE_POD, EVENTS, HISTORY, PLAN, POD, POD_COMMANDS
    from syncpod.messages.signed import Commands, Refused, first_and_more, plain, unsigned
    from syncpod.messages.step_table import STEPS, Interruption
    from syncpod.messages.steps import CreateSandbox, StartContainer, StepInput
    from syncpod.pod import pod_to_wire
    from workflows.entity import Entity, decisions_taken, decoded, invalid
    from workflows.handlers import UNKNOWN, query_handler, takes, unknown_signal
    from workflows.pod import (
        absorb,
        decide,
        desired,
        facts,
        outcome,
        report,
        resizing,
        restart_of_all,
        search_attributes,
        start,
        temporal_ui,
    )
    from workflows.pod.decision import Decision, Hold, Step, UnderWay
    from workflows.pod.inbox import PART, PodInbox
    from workflows.pod.published import PublishedPod
    from workflows.pod.state import PodState
    from workflows.pod.steps import HEARTBEAT_TIMEOUT, RETRY
    from workflows.pod.worker_hooks import WorkerHooks
    from workflows.rejections import sentence
    from workflows.restarted import signals_left

TOO_LONG = 10_000
"""Length of history, in events, from which a run continues as new between two steps, with its pulls cancelled, although
the pod is not at rest. A pod may never rest, and a server ends a run of 51,200 events."""

TOO_LARGE = 8 * 1024 * 1024
"""Bytes of history from which it does so too: a server ends a run of 50 MB. A run begins with 2 MiB at most."""

CANCEL: Final = (
    "the cancellation is refused, since it has no payload that could be signed: "
    "the signal `delete_pod` and the update `delete` take one (`--input '{}'`), and end the pod"
)
"""Answers a request to cancel the workflow where commands are signed."""

TOGETHER: Final = 4
"""Pulls begun in one workflow task: each is given the whole pod, and a server takes 4 MiB from a task."""

GUARANTEE: Final = timedelta(seconds=1)
"""How long after a back-off's end the workflow's own timer rings. The node's queue signals that end; the timer is for
the case that the signal is lost."""


@dataclass
class Begun:
    """A step that has begun."""

    step: Step
    activity: workflow.ActivityHandle[Any]
    at: datetime
    must_stop: Callable[[], bool]
    """Says whether it is to let go."""
    is_cancelled: bool = False


class Ahead(NamedTuple):
    """A start that has begun before it was its turn, and waits in the worker for the step before it."""

    step: Step
    """As it was decided."""
    begun: Begun

    @property
    def knows_sandbox(self) -> bool:
        """Whether its sandbox was there when it was decided, so that it follows another start."""
        return isinstance(self.step.input, StartContainer) and self.step.input.sandbox_id != ""

    def is_due(self, decided: Step) -> bool:
        """Say whether it is the step that is decided now. It may have begun without the id of its sandbox."""
        given, wanted = self.step.input, decided.input
        if isinstance(given, StartContainer) and not self.knows_sandbox and isinstance(wanted, StartContainer):
            given = given.model_copy(update={"sandbox_id": wanted.sandbox_id})
        return replace(self.step, input=given) == decided


def _memo() -> object:
    """Return the pod's memo, which a server gives to each run; None where it cannot be read."""
    try:
        return plain(workflow.memo_value(POD_MEMO, None))  # for people alone: nobody signs a memo
    except (KeyError, ValueError, RuntimeError):  # another client wrote what no converter reads
        return None


def _makes_sandbox(step: Step) -> bool:
    return isinstance(step.input, CreateSandbox)


class Pull(NamedTuple):
    """A pull that runs concurrently with the pod's other steps."""

    image: str
    task: asyncio.Task[None]


@workflow.defn(name=POD_WORKFLOW)
@takes(POD_COMMANDS)
class PodWorkflow:
    """The life of one pod, from its first apply to its deletion."""

    @workflow.init
    def __init__(self, *inputs: Any) -> None:
        info = workflow.info()
        start_input, more = first_and_more(inputs)
        self.commands = Commands(start_input, more=more)
        given, decisions = self.commands.input, decisions_taken()
        self.state, self.refusal = PodState(), self.commands.refusal
        if not self.refusal:
            self.state, self.refusal = start.initial_state(
                given,
                info.workflow_id,
                workflow.now(),
                start.ids_of_run(info.original_execution_run_id),
                info.task_queue,
                decisions=decisions,
                memo=_memo(),
            )
            self.state.accepted = self.commands.accepted_before(self.state.accepted)
        if self.refusal and start.is_of_schedule(info.workflow_id):
            self.refusal = start.OF_SCHEDULE
        self.entity = Entity(self, self.state, PodInbox(), self.commands, part=PART)
        for name, args in signals_left(given) if not self.refusal else ():
            self.entity.put(name, args)
        self.sender = sender_in(_memo())
        self.holds: tuple[Hold, ...] = ()
        self.planned: tuple[str, ...] = ()
        self.pulls: dict[str, Pull] = {}
        self.ahead: Ahead | None = None
        self.goes_ahead = True
        self.under_way: dict[tuple[StepName, str], UnderWay] = {}
        self.are_pulls_cancelled = False
        self.worker_hooks = WorkerHooks(self.state.pod)
        self.is_new = not self.refusal and start.is_new_by_update(given)

    @workflow.run
    async def run(self, *_inputs: Any) -> dict[str, Any]:
        """Run the pod until it is deleted; returns the Pod with its final status."""
        if self.refusal:
            if not self.commands.refusal and start.by_update(self.commands.input):
                return {"rejected": self.refusal}  # the update's caller knows
            raise invalid(self.refusal)
        while True:
            await self.entity.take_in()
            self.worker_hooks.deciding()
            self.catch_up()
            decision = self.decide()
            self.worker_hooks.decided(decision)
            if self.ahead is not None:
                await self.go_on(self.ahead, decision)
            elif decision.failure is not None:
                outcome.fail(self.state, decision.failure, workflow.now())
            elif self.is_overlong() and (self.pulls or self.entity.is_quiet()):
                await self.leave_between_steps()
            elif decision.step is not None:
                await self.take(decision.step)
            elif self.state.removed and self.entity.is_quiet():
                return self.end()
            elif self.entity.is_due() and self.entity.is_quiet():
                await self.continue_as_new()
            else:
                self.publish(rests=not self.pulls)
                if not self.pulls:
                    self.worker_hooks.rested(self.state)
                await self.wait(decision)

    def catch_up(self) -> None:
        """Update the state by what has been absorbed and by the current time, before anything is decided."""
        state, now = self.state, workflow.now()
        absorb.tidy(state, now)
        outcome.expire(state, now)
        outcome.unblock_end(state)
        resizing.take_as_applied(state, resizing.as_allocated(state))
        resizing.settle(state, now)
        facts.record_lost(state, now)
        report.update_status(state, self.holds, now, under_way=self.inputs_ahead)

    @property
    def inputs_ahead(self) -> tuple[StepInput, ...]:
        """The input of the start that has begun ahead."""
        return (self.ahead.step.input,) if self.ahead is not None else ()

    def decide(self) -> Decision:
        """Return what to do next, and record what is planned and what is held back."""
        state, now = self.state, workflow.now()
        decision = decide.next_step(state, now, pulling=self.pulls)
        if decision.failure is not None:
            return decision
        if decision.holds != self.holds:
            begun = [hold for hold in decision.holds if hold not in self.holds]
            self.holds = decision.holds
            report.note_holds(state, begun, now)
            report.update_status(state, self.holds, now, under_way=self.inputs_ahead)
        report.note_decision(state, decision.plan, self.planned, now)
        self.planned = decision.plan
        return decision

    # --- leaving the run ----------------------------------------------------------------------------------------------

    def is_overlong(self) -> bool:
        """Say whether this run must continue as new although its pod is not at rest."""
        info = workflow.info()
        is_long = info.get_current_history_length() >= TOO_LONG or info.get_current_history_size() >= TOO_LARGE
        return is_long and not self.state.removed

    async def leave_between_steps(self) -> None:
        """Continue as new at once; if pulls prevent that, cancel them first. The next run begins them again."""
        if not self.pulls:
            # Replay: nothing is awaited between the check that the run is quiet and this, or a signal could be lost.
            self.worker_hooks.rested(self.state)
            workflow.continue_as_new(start.next_input(self.state))
        self.are_pulls_cancelled = True
        await self.entity.until(lambda: not self.pulls)
        self.are_pulls_cancelled = False

    async def continue_as_new(self) -> None:
        """Continue as new, unless something comes in meanwhile."""
        if await self.entity.is_still_quiet_in_the_next_task():
            # Replay: nothing is awaited between that check and this, or a signal could be lost.
            self.worker_hooks.rested(self.state)
            workflow.continue_as_new(start.next_input(self.state))

    def end(self) -> dict[str, Any]:
        """Return the result of a pod that is gone, or begin the pod that was applied during its deletion."""
        # Replay: nothing is awaited between the check that the run is quiet and the return or the raise.
        self.worker_hooks.rested(self.state)
        self.worker_hooks.arm_backoffs(())  # or they would end back-offs of the next pod of this name
        if self.state.successor is None:
            self.publish()
        self.worker_hooks.publish(lambda: self.as_published(is_gone=True))
        if self.state.successor is not None:
            workflow.continue_as_new(desired.successor_of(self.state))
        return pod_to_wire(desired.as_pod(self.state))

    # --- one step -----------------------------------------------------------------------------------------------------

    async def take(self, step: Step) -> None:
        """Begin the decided step: a pull runs concurrently, any other step is awaited."""
        # Replay: read before anything is awaited; a listing that comes in later is not older than the step.
        step = replace(step, known=self.state.observed.seq)
        if decide.expiry(self.state) is not None:
            self.arm(Decision())  # the step may outlast the pod's deadline; holds are decided again after it
        if step.name != StepName.PULL_IMAGE:
            await self.perform(step)
            return
        self.pull(step)
        if len(self.pulls) % TOGETHER == 0:
            await self.entity.end_task(f"{len(self.pulls)} images are being pulled")

    async def perform(self, step: Step) -> None:
        """Run one step to its end and fold its outcome in; never raises for what the step does.

        A start that has begun ahead goes on. If it is certain which start follows the step, that one begins ahead: it
        waits in the worker for the step.

        Signals that arrive meanwhile are absorbed and shown: a kill alone may take hours, and a container that stops
        being ready must show at once.
        """
        was_ending = self.is_ending
        spec = STEPS[step.name]

        def must_stop() -> bool:
            if spec.interruption is Interruption.GOES_ON:
                # Only a shorter grace interrupts a kill: it starts again with the rest of the grace.
                return step.name == StepName.KILL_POD and self.is_grace_shortened(kill_by)
            if spec.interruption is Interruption.GIVES_WAY:
                return not was_ending and self.must_end()
            return self.must_end()

        begun, follower = self.begin(step, must_stop)
        kill_by = self.state.kill_by  # as it is once the step is scheduled, which may have set it
        if follower is not None and not begun.activity.done():
            self.ahead = self.begin_ahead(follower, step)
        await self.see_through(begun, self.ahead.begun if self.ahead is not None else None)
        if self.ahead is not None and (self.ahead.begun.activity.done() or decide.is_last(self.state, self.ahead.step)):
            await self.let_end(self.ahead)  # no start follows that would have to begin now: nothing is decided between

    def begin(self, step: Step, must_stop: Callable[[], bool]) -> tuple[Begun, Step | None]:
        """Begin a step, unless that has been done ahead; return it, and the start that follows it for certain."""
        follower: Step | None = None
        if (self.goes_ahead or _makes_sandbox(step)) and not self.is_overlong():
            follower = decide.follower(self.state, step, workflow.now(), pulling=self.pulls)
        if self.ahead is not None:
            begun, self.ahead = self.ahead.begun, None
            begun.must_stop = must_stop
            self.show()
            return begun, follower
        if follower is not None and _makes_sandbox(step):
            step = replace(step, input=step.input.model_copy(update={"followed": True}))
        return self.schedule(step, must_stop), follower

    def begin_ahead(self, start: Step, before: Step) -> Ahead:
        """Begin a start that follows the step scheduled last; it is cancelled if it must not take place any more."""
        container, image = start.container, self.state.container(start.container).image

        def must_not_start() -> bool:
            return self.must_end() or self.state.container(container).image != image

        given = start.input.model_copy(update={"follows": self.state.fence})
        begun = self.schedule(replace(start, known=before.known, input=given), must_not_start)
        # It may fail before its turn to be awaited; if the run leaves the cache then, asyncio is not to complain.
        begun.activity.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return Ahead(start, begun)

    async def go_on(self, ahead: Ahead, decision: Decision) -> None:
        """Go on with a start that has begun ahead, if it is what has been decided now; else only wait for its end.

        Mostly it has not begun to act then, and says so. Otherwise it was due when the step before it had ended.
        """
        if decision.step is not None and ahead.is_due(decision.step):
            await self.take(decision.step)
            return
        await self.let_end(ahead)

    async def let_end(self, ahead: Ahead) -> None:
        """Wait for the end of the start that has begun ahead, and fold its outcome in.

        A pod whose init container took too long for it takes one step at a time from then on: the next one may, too.
        """
        if not ahead.begun.activity.done():
            await self.look(ahead.begun.step)
        await self.see_through(ahead.begun)
        self.ahead = None
        if ahead.knows_sandbox and all(each.name != ahead.step.container for each in self.state.own.containers):
            self.goes_ahead = False

    async def see_through(self, begun: Begun, follower: Begun | None = None) -> None:
        """Wait for the end of a step, showing what comes in meanwhile, and fold its outcome in."""
        activity, steps = begun.activity, (begun.step, *([follower.step] if follower is not None else []))
        while not activity.done() and not begun.must_stop():
            await self.entity.until(lambda: activity.done() or begun.must_stop() or bool(self.entity.inbox))
            if self.entity.inbox and not activity.done():
                await self.look(*steps)
                if follower is not None and follower.must_stop():
                    self.cancel(follower)
        await self.finish(begun, follower)

    async def look(self, *steps: Step) -> None:
        """Absorb what has come in while the steps run, and show the resulting status; decide nothing.

        If the pod reaches a terminal phase meanwhile, perhaps by this very step, that is shown only after the step.
        """
        await self.entity.take_in()
        outcome.expire(self.state, workflow.now())
        state = self.state
        before, was_over = (state.status, state.reached, state.terminated), state.reached in TERMINAL_PHASES
        report.update_status(self.state, self.holds, workflow.now(), under_way=[step.input for step in steps])
        if state.reached in TERMINAL_PHASES and not was_over:
            state.status, state.reached, state.terminated = before
        self.publish()
        if decide.expiry(self.state) is not None:
            self.arm(Decision())

    def pull(self, step: Step) -> None:
        """Begin a pull concurrently with everything else: only its own container waits for it.

        It is cancelled when the pod is to end, when another image is desired for the container, and when the run has
        become too long to wait for it: the next run begins it again.
        """
        image = self.state.container(step.container).image

        def must_stop() -> bool:
            return self.are_pulls_cancelled or self.must_end() or self.state.container(step.container).image != image

        begun = self.schedule(step, must_stop)

        async def run() -> None:
            await self.finish(begun)
            # Replay: nothing is awaited between the outcome and this, or the image could be pulled twice.
            del self.pulls[step.container]
            self.entity.wake()

        self.pulls[step.container] = Pull(image, asyncio.create_task(run()))

    def schedule(self, step: Step, must_stop: Callable[[], bool]) -> Begun:
        """Begin a step, which is cancelled as soon as `must_stop` says so."""
        spec = STEPS[step.name]
        began = workflow.now()
        if step.name == StepName.KILL_POD:
            self.publish(rests=True)  # a kill may take the whole grace, so show the pod as it is before that
        summary = temporal_ui.step_summary(self.state, step)
        argument = decide.record_step(self.state, step, began)
        if step.resets:
            self.state.restart_all = restart_of_all.reset_by(self.state, step.input)
        if step.replaces:
            self.state.replacing = {step.replaces: False} | self.state.replacing
        self.under_way[step.name, step.container] = UnderWay(step.name.value, step.container, summary, began)
        self.show()
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
        return Begun(step, activity, began, must_stop)

    def cancel(self, begun: Begun) -> None:
        """Have a step let go, unless it has ended or has this order already."""
        if not begun.is_cancelled and not begun.activity.done():
            begun.is_cancelled = True
            begun.activity.cancel()
            self.worker_hooks.hasten_cancellation()

    async def finish(self, begun: Begun, follower: Begun | None = None) -> None:
        """Wait for a step's end, cancel it as soon as it must stop, and fold its outcome into the state.

        A step that has begun together with it is cancelled with it.
        """
        step, activity, began = begun.step, begun.activity, begun.at
        # Replay: `must_stop` is asked whenever the run wakes, and notes that the pod's deadline has passed. It may look
        # at nothing but the state and the workflow's time.
        await self.entity.until(lambda: activity.done() or begun.must_stop())
        if not activity.done():
            self.cancel(begun)
            if follower is not None:
                self.cancel(follower)
            await self.entity.until(activity.done)
        del self.under_way[step.name, step.container]
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

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def wait(self, decision: Decision) -> None:
        """Wait for a signal or for the earliest deadline."""
        self.arm(decision)
        self.worker_hooks.arm_backoffs(decision.holds)
        due = self.entity.is_due()  # Replay: asked here, and not within the wait (see is_due)
        await self.entity.wait(lambda: (self.state.removed or due) and self.entity.is_quiet())

    def arm(self, decision: Decision) -> None:
        """Have the one timer ring at the earliest deadline."""
        held, expiry = decision.deadline, decide.expiry(self.state)
        # The node's queue signals the end of a back-off itself; nobody else knows when the pod expires.
        due = [at for at in (held and held + GUARANTEE, expiry) if at is not None]
        deadline = min(due, default=None)
        summary = temporal_ui.timer_summary(self.state, decision.holds, held if deadline != expiry else None)
        self.entity.alarm.set(deadline, summary)

    # --- what the entity asks of its workflow -------------------------------------------------------------------------

    def absorb(self, name: str, args: tuple[Any, ...]) -> None:
        """Fold one signal into the state."""
        absorb.absorb(self.state, name, args, workflow.now())

    def on_cancel(self) -> None:
        """Take ``temporal workflow cancel`` as a deletion, unless commands are to be signed: nobody signs this one."""
        if self.commands.signed:
            self.refuse("cancel", CANCEL)
            self.show()  # nothing else would show it, since a refusal wakes nothing
        else:
            self.entity.put(DELETE_POD.name, ({},))

    def refuse(self, name: str, why: str) -> None:
        """Show that a signal was not accepted, and why."""
        self.state.reject(workflow.now(), name, why)

    def is_at_rest(self) -> bool:
        """Say whether no pull is under way; the loop waits for every other step itself."""
        return not self.pulls

    def sentence(self, wrong: Exception) -> str:
        """Return one sentence that says why an update is refused."""
        return sentence(wrong)

    def must_end(self) -> bool:
        """Fail the pod if its active deadline has passed; say whether it is to end."""
        outcome.expire(self.state, workflow.now())
        return self.is_ending

    @property
    def is_ending(self) -> bool:
        """Whether the pod is to end, by what has been absorbed."""
        return self.state.deletion is not None or self.state.failure is not None

    def is_grace_shortened(self, kill_by: datetime | None) -> bool:
        """Say whether the pod's grace now ends before `kill_by`, its end when a kill began."""
        self.must_end()
        return self.state.kill_by is not None and kill_by is not None and self.state.kill_by < kill_by

    # --- telling ------------------------------------------------------------------------------------------------------

    def publish(self, *, rests: bool = False) -> None:
        """Write the search attributes that changed, and show the pod's state in the UI.

        `rests`: the pod stays for a while as it is now.
        """
        started_with = any(pair.key.name == "PodStatus" for pair in workflow.info().typed_search_attributes)
        updates = search_attributes.updates(self.state, started_with=started_with, rests=rests)
        if updates:
            workflow.upsert_search_attributes(updates)
        self.show()

    def show(self) -> None:
        """Set the workflow's current details; costs no history."""
        workflow.set_current_details(temporal_ui.details(self.state, self.holds, self.sender))
        self.worker_hooks.publish(self.as_published)
        self.worker_hooks.count_resizes(self.state)

    def as_published(self, *, is_gone: bool = False) -> PublishedPod:
        """Return a copy of the present state that later changes do not affect."""
        # Replay: a shallow copy is enough, since the state's values are replaced and never changed.
        length = workflow.info().get_current_history_length()
        under_way = tuple(self.under_way.values())
        return PublishedPod(self.state.model_copy(), workflow.now(), length, self.holds, under_way, is_gone)

    # --- signals and updates (`syncpod.messages.pod_commands`) --------------------------------------------------------

    def receive(self, signal: SignalSpec[Any], args: Sequence[Any]) -> None:
        """Collect a signal; never awaits or raises."""
        self.entity.receive(signal, args)

    @workflow.signal(dynamic=True, description=UNKNOWN)
    def receive_unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Show a signal of an unknown name as a rejection."""
        self.entity.refuse(name, f"signal {name}: {unknown_signal(POD_COMMANDS, name, len(args))}")

    async def change(self, update: UpdateSpec[Any], args: Sequence[Any]) -> dict[str, Any]:
        """Carry out an accepted update after the signals before it, which may have made it impossible."""
        given, answer = self.entity.obey(update, args), dict[str, Any]()

        def change() -> None:
            with self.state.all_or_nothing():
                answer.update(absorb.UPDATES[update.name](self.state, given, workflow.now()))

        await self.entity.change(change)
        return self.as_created(answer) if update.name == APPLY.name else answer

    def as_created(self, applied: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to an apply; the first one of a new run has most likely started it: both came in one."""
        created = {"change": Change.CREATED.value} if self.is_new and applied["change"] == Change.UNCHANGED else {}
        self.is_new = False
        return applied | created

    def check(self, update: UpdateSpec[Any], args: Sequence[Any]) -> None:
        """Try an update on a copy of the state, so that a wrong one is refused before anything is written."""
        if self.refusal:
            raise invalid(self.refusal)
        if self.state.removed:
            raise ApplicationError("the pod is gone; apply it again", type="Gone", non_retryable=True)
        given = self.entity.allow(update, args)
        self.entity.attempt(lambda: absorb.UPDATES[update.name](self.state.model_copy(), given, workflow.now()))

    # --- queries ------------------------------------------------------------------------------------------------------

    @query_handler(POD)
    def pod(self) -> dict[str, Any]:
        """Return the whole Pod with its status, as ``kubectl get -o json`` has it."""
        return self.as_published().pod()

    @query_handler(PLAN)
    def plan(self, candidate: Any = None, update: str = "apply") -> dict[str, Any]:
        """Return the steps that would be taken now, or after `candidate` was applied.

        If `update` is ``resize``, `candidate` is the argument of that update.
        """
        return self.as_published().plan(plain(candidate), plain(update))

    @query_handler(HISTORY)
    def history(self) -> list[dict[str, Any]]:
        """Return each decision, step, signal and exit with time, reason and attempt, oldest first."""
        return self.as_published().history()

    @query_handler(EVENTS)
    def events(self) -> list[dict[str, Any]]:
        """Return the pod's events in the kubelet's words, rejections among them, oldest first."""
        return self.as_published().events()
