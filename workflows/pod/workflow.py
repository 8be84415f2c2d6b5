"""PodWorkflow: one durable run per pod.

::

      signals, updates ──► inbox ──► absorb ──► status ──► next_step ──┬─► a step ──► its result ──┐
                             ▲                                         ├─► a pull, beside the rest │
                             │                                         └─► wait (one timer)        │
                             └─────────────────────────────────────────────────────────────────────┘

The loop takes everything pending, decides once, runs one step, and begins again with the newer view; when nothing may
run it waits for a signal or for the earliest deadline. An update does not cancel a running step: it finishes, then the
pod is decided anew. A deletion does cancel what only waits or pulls; calls already sent to the runtime are shielded in
the activity, which returns their outcome.

Only this module is loaded by the Temporal sandbox for each run, so it is small; all else is pure and passed through.
Whatever a run calls decides its commands: changes there are versioned by ``DECISION_VERSION``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from temporalio import workflow
from temporalio.common import Priority, RawValue
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.phase import TERMINAL_PHASES
    from syncpod.lifecycle.version import decisions_of
    from syncpod.messages import POD_WORKFLOW, StepName
    from syncpod.messages.step_table import STEPS, Interruption
    from syncpod.pod import pod_to_wire
    from workflows.entity import decisions_taken
    from workflows.pod import absorb, decide, desired, facts, outcome, report, resizing, rounds, start
    from workflows.pod.decision import Decision, Hold, Step
    from workflows.pod.inbox import PART, Inbox
    from workflows.pod.state import PodState
    from workflows.pod.steps import HEARTBEAT_TIMEOUT, RETRY

PAUSE = timedelta(milliseconds=1)
"""Between two parts, and before a run is left: the workflow task ends."""

TOO_LONG = 10_000
"""Events from which on a run is left between two steps, without a pause and with its pulls given up: its pod may never
rest, and a server ends a run of 51,200."""

TOGETHER = 4
"""Pulls begun in one workflow task: each is given the whole pod, and a server takes 4 MiB from a task."""

GUARANTEE = timedelta(seconds=1)
"""How long after a deadline the workflow's own timer rings: the node's queue signals the deadline itself."""


class Pull(NamedTuple):
    """A pull that runs beside the pod's other steps."""

    image: str
    task: asyncio.Task[None]


@workflow.defn(name=POD_WORKFLOW)
class PodWorkflow:
    """The life of one pod, from its first apply to its deletion."""

    @workflow.init
    def __init__(self, start_input: Any = None) -> None:
        self.inbox = Inbox()
        self.alarm: asyncio.Task[None] | None = None
        self.armed: datetime | None = None
        self.rang = False
        self.woken = False
        self.holds: tuple[Hold, ...] = ()
        self.planned: tuple[str, ...] = ()
        self.pulls: dict[str, Pull] = {}
        self.letting_go = False
        self.renewed = False
        self.leaving: asyncio.Task[None] | None = None
        self.queued: dict[str, tuple[int, datetime]] = {}
        decisions = decisions_taken()
        self.state, self.refusal = start.initial_state(
            start_input,
            workflow.info().workflow_id,
            workflow.now(),
            workflow.uuid4,
            workflow.info().task_queue,
            decisions=decisions,
        )
        self.counted = self.state.pod

    @workflow.run
    async def run(self, start_input: Any = None) -> dict[str, Any]:
        """Run the pod until it is deleted; returns the Pod with its final status."""
        if self.refusal:
            if start.by_update(start_input):
                return {"rejected": self.refusal}  # the update's caller has been told
            raise ApplicationError(self.refusal, type="Invalid", non_retryable=True)
        paused = False
        while True:
            paused = not await self.take_in() and paused
            absorb.tidy(self.state, workflow.now())
            outcome.expire(self.state, workflow.now())
            self.hurry()
            resizing.take_as_applied(self.state, resizing.as_allocated(self.state))
            resizing.settle(self.state, workflow.now())
            facts.record_lost(self.state, workflow.now())
            report.update_status(self.state, self.holds, workflow.now())
            decision = decide.next_step(self.state, workflow.now(), pulling=self.pulls)
            if decision.failure is not None:
                outcome.fail(self.state, decision.failure, workflow.now())
                continue
            if decision.holds != self.holds:
                begun = [hold for hold in decision.holds if hold not in self.holds]
                self.holds = decision.holds
                report.note_holds(self.state, begun, workflow.now())
                report.update_status(self.state, self.holds, workflow.now())
            report.note_decision(self.state, decision.plan, self.planned, workflow.now())
            self.planned = decision.plan
            if self.is_overlong():
                if self.pulls:
                    await self.let_pulls_go()
                    continue
                if self.quiet():
                    workflow.continue_as_new(start.next_input(self.state))
            if decision.step is not None:
                paused = False
                step = replace(decision.step, known=self.state.observed.seq)
                if decide.expiry(self.state) is not None:
                    # A step may take longer than the pod has; what is held is decided afresh after it.
                    self.arm(Decision())
                if step.name == StepName.PULL_IMAGE:
                    self.pull(step)
                    if len(self.pulls) % TOGETHER == 0:
                        await self.end_task(f"{len(self.pulls)} images are being pulled")
                else:
                    await self.perform(step)
                continue
            if self.quiet():  # Replay: no await from here to the return or the raise
                if self.state.removed:
                    self.arm_queue(Decision())  # what rings for this pod is not to hold up the next of its name
                if self.state.removed and self.state.successor is None:
                    self.publish()
                    return pod_to_wire(desired.as_pod(self.state))
                if self.state.removed:
                    workflow.continue_as_new(desired.successor_of(self.state))
                if self.is_due():
                    if paused:
                        workflow.continue_as_new(start.next_input(self.state))
                    paused = await self.pause()
                    continue
            paused = False
            self.publish()
            await self.wait(decision)

    # --- one step -----------------------------------------------------------------------------------------------------

    async def perform(self, step: Step) -> None:
        """Run one step to its end and fold its outcome in; never raises for what the step does.

        What comes in meanwhile is taken and shown: a kill alone may take hours, and a container that is not ready is
        to be seen at once.
        """
        was_ending = self.is_ending
        spec = STEPS[step.name]

        def must_stop() -> bool:
            if step.name == StepName.KILL_CONTAINER:  # the pod's end has a grace of its own, which may be shorter
                return not was_ending and self.ending()
            if spec.interruption is Interruption.GOES_ON:
                # Only a shorter grace interrupts a kill: it begins anew with what is left.
                return step.name == StepName.KILL_POD and self.deadline_moved(kill_by)
            return self.ending()

        kill_by, activity, began = self.schedule(step)
        while not activity.done() and not must_stop():
            await self.until(lambda: activity.done() or must_stop() or bool(self.inbox))
            if self.inbox and not activity.done():
                await self.look()
        await self.finish(step, activity, began, must_stop)

    async def look(self) -> None:
        """Take what has come in while a step runs, and show what follows from it; nothing is decided.

        Nor has the pod ended for good by what the step is just ending: that is seen when the step is over.
        """
        await self.take_in()
        outcome.expire(self.state, workflow.now())
        state = self.state
        before, was_over = (state.status, state.reached, state.terminated), state.reached in TERMINAL_PHASES
        report.update_status(self.state, self.holds, workflow.now())
        if state.reached in TERMINAL_PHASES and not was_over:
            state.status, state.reached, state.terminated = before
        self.publish()
        if decide.expiry(self.state) is not None:
            self.arm(Decision())

    def pull(self, step: Step) -> None:
        """Begin a pull beside everything else: only its own container waits for it.

        It is given up when the pod is to end, when another image is desired for the container, and when the run has
        become too long to wait for it: the next one begins it again.
        """
        image = self.state.container(step.container).image

        def must_stop() -> bool:
            return self.letting_go or self.ending() or self.state.container(step.container).image != image

        _, activity, began = self.schedule(step)

        async def run() -> None:
            await self.finish(step, activity, began, must_stop)
            del self.pulls[step.container]
            self.woken = True

        self.pulls[step.container] = Pull(image, asyncio.create_task(run()))

    def schedule(self, step: Step) -> tuple[datetime | None, workflow.ActivityHandle[Any], datetime]:
        """Have a step begin; return the deadline of the pod's grace that it was given, its handle, and the time."""
        spec = STEPS[step.name]
        began = workflow.now()
        if step.name == StepName.KILL_POD:
            self.publish()  # a kill takes as long as the grace: what is shown must not be of before
        argument = decide.begin(self.state, step, began)
        if step.resets:
            self.state.restart_all = rounds.reset_by(self.state, step.input)
        if step.replaces:
            self.state.replacing = {step.replaces: False} | self.state.replacing
        self.show()
        activity: workflow.ActivityHandle[Any] = workflow.start_activity(
            step.name.value,
            argument,
            start_to_close_timeout=spec.start_to_close,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRY,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            priority=Priority(priority_key=spec.urgency),
            summary=step.summary,
            result_type=RawValue,  # a result that nobody can decode fails the step, and not the workflow task
        )
        return self.state.kill_by, activity, began

    async def finish(
        self,
        step: Step,
        activity: workflow.ActivityHandle[Any],
        began: datetime,
        must_stop: Callable[[], bool],
    ) -> None:
        """Wait for a step's end, which `must_stop` hastens, and fold its outcome in."""
        await self.until(lambda: activity.done() or must_stop())
        if not activity.done():
            activity.cancel()
            await self.until(activity.done)
        try:
            result = await activity
        except ActivityError as error:
            self.failed(step, error, began)
        except asyncio.CancelledError:
            outcome.cancelled_step(self.state, step, began, workflow.now())
        else:
            if resizing.is_outdated(self.state, step.input):
                step = replace(step, outdated=True)
            outcome.finished_step(self.state, step, decoded(result), began, workflow.now())
        self.span(step, began)

    def failed(self, step: Step, error: ActivityError, began: datetime) -> None:
        """Sort what a failed step means: cancelled, timed out, refused by the runtime. All mean: look again, later."""
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
        self.arm_queue(decision)
        await self.until(lambda: bool(self.inbox) or self.woken or self.rang or (self.state.removed and self.quiet()))
        if self.rang:
            self.rang, self.armed, self.alarm = False, None, None

    def arm(self, decision: Decision) -> None:
        """Have one timer ring at the earliest deadline; it is replaced only when that moves."""
        held, expiry = decision.deadline, decide.expiry(self.state)
        # The node's queue signals the end of a back-off itself; nobody else knows when the pod expires.
        due = [at for at in (held and held + GUARANTEE, expiry) if at is not None]
        deadline = min(due, default=None)
        if deadline != self.armed:
            if self.alarm is not None and not self.alarm.done():
                self.alarm.cancel()
            self.armed, self.alarm = deadline, None
            if deadline is not None:
                summary = report.timer_summary(decision.holds, held if deadline != expiry else None)
                self.alarm = asyncio.create_task(self.ring(deadline, summary))

    async def ring(self, deadline: datetime, summary: str) -> None:
        """Ring at the deadline."""
        await workflow.sleep(max(timedelta(0), deadline - workflow.now()), summary=summary)
        self.rang = True

    def arm_queue(self, decision: Decision) -> None:
        """Have the node's queue signal each hold's end exactly then. Costs no history; again after a restart."""
        arm = workflow.extern_functions().get("syncpod_arm_backoff")
        if workflow.unsafe.is_replaying() or arm is None:
            return
        timed = {hold.subject for hold in decision.holds if hold.until is not None}
        for subject in [each for each in self.queued if each not in timed]:
            restart, _ = self.queued.pop(subject)
            arm(workflow.info().workflow_id, subject, restart, None)  # ended by an operator, or with the pod
        for hold in decision.holds:
            if hold.until is None or self.queued.get(hold.subject) == (hold.restart, hold.until):
                continue
            self.queued[hold.subject] = (hold.restart, hold.until)
            delay = max(timedelta(0), hold.until - workflow.now()).total_seconds()
            arm(workflow.info().workflow_id, hold.subject, hold.restart, delay)

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait for a condition; ``temporal workflow cancel`` meanwhile means delete."""
        while not ready():
            try:
                await workflow.wait_condition(ready)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()
                self.inbox.put("delete_pod", ({},))

    async def let_pulls_go(self) -> None:
        """Have all pulls given up, and wait until they are."""
        self.letting_go = True
        await self.until(lambda: not self.pulls)
        self.letting_go = False

    async def end_task(self, why: str) -> None:
        """Let a workflow task end, and with it what it has to hand in."""
        pause = asyncio.create_task(workflow.sleep(PAUSE, summary=why))
        await self.until(pause.done)

    async def pause(self) -> bool:
        """Let a workflow task end before the run is left; return False if anything has come meanwhile.

        The SDK hands out a task's signals first, and its cancellation only when what they set off has been done: a run
        left in between would lose that. A timer's end is handed out together with it.
        """
        if self.leaving is None or self.leaving.done():
            self.leaving = asyncio.create_task(workflow.sleep(PAUSE, summary="the workflow continues as new"))
        leaving = self.leaving
        await self.until(lambda: leaving.done() or bool(self.inbox) or self.woken)
        return leaving.done() and not self.inbox and not self.woken

    # --- looking ------------------------------------------------------------------------------------------------------

    async def take_in(self) -> bool:
        """Absorb everything pending, in the order of arrival; return whether it took a pause.

        Of very much it is a part in each workflow task.
        """
        self.drain(PART)
        if not self.inbox:
            return False
        while self.inbox:
            await self.end_task(f"{len(self.inbox)} signals are yet to be taken")
            self.drain(PART)
        return True

    def drain(self, most: int | None = None) -> None:
        """Absorb what is pending, in the order of arrival, at most so many signals; None = all."""
        self.woken = False
        for name, args in self.inbox.take(most):
            absorb.absorb(self.state, name, args, workflow.now())

    def ending(self) -> bool:
        """Say whether the pod is to end, by what has been absorbed and by its own deadline."""
        outcome.expire(self.state, workflow.now())
        return self.is_ending

    @property
    def is_ending(self) -> bool:
        """Whether the pod is to end, by what has been absorbed."""
        return self.state.deletion is not None or self.state.failure is not None

    def hurry(self) -> None:
        """Let no kill that got stuck before delay the end of a pod that is to end now."""
        if self.state.hurried:
            self.state.forget_stuck_kills()
        self.state.hurried = False

    def deadline_moved(self, kill_by: datetime | None) -> bool:
        """Say whether the grace has been shortened since a kill began."""
        self.ending()
        return self.state.kill_by is not None and kill_by is not None and self.state.kill_by < kill_by

    def quiet(self) -> bool:
        """Say whether nothing is pending or under way and no handler runs: a run may be left only then."""
        return not self.inbox and not self.woken and not self.pulls and workflow.all_handlers_finished()

    def is_due(self) -> bool:
        """Say whether this run should continue as new: by its length, for a newer worker's decisions, or as asked."""
        info = workflow.info()
        limit = self.state.max_events
        too_long = 0 < limit <= info.get_current_history_length()
        return (
            info.is_continue_as_new_suggested()
            or too_long
            or self.renewed
            or self.state.decision_version < decisions_of(info.get_current_build_id())
        )

    def is_overlong(self) -> bool:
        """Say whether this run must be left though its pod is not at rest."""
        return workflow.info().get_current_history_length() >= TOO_LONG and not self.state.removed

    # --- telling ------------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Write the search attributes that changed, and show the pod's state in the UI."""
        started_with_some = any(pair.key.name == "PodName" for pair in workflow.info().typed_search_attributes)
        updates = report.search_attribute_updates(self.state, started_with_some)
        if updates:
            workflow.upsert_search_attributes(updates)
        self.show()

    def show(self) -> None:
        """Set the workflow's current details; costs no history."""
        workflow.set_current_details(report.details(self.state, self.holds))
        self.count_resizes()

    def count_resizes(self) -> None:
        """Give telemetry how the pod's resize stands; replays count none."""
        count = workflow.extern_functions().get("syncpod_resizes")
        before, self.counted = self.counted, self.state.pod
        if count is not None and not workflow.unsafe.is_replaying():
            count(workflow.info().workflow_id, *resizing.counted(self.state, before))

    def span(self, step: Step, began: datetime) -> None:
        """Give telemetry the sync that has ended; replays make none."""
        record = workflow.extern_functions().get("syncpod_sync_span")
        if record is None or workflow.unsafe.is_replaying():
            return
        attributes = report.span_attributes(self.state, step)
        record(attributes, int(began.timestamp() * 1e9), int(workflow.now().timestamp() * 1e9))

    # --- signals: collect, never await, never raise -------------------------------------------------------------------

    def put(self, name: str, args: Sequence[Any]) -> None:
        """Collect one signal."""
        self.inbox.put(name, tuple(args))

    @workflow.signal
    def update_pod(self, *args: Any) -> None:
        """Take one v1 Pod document as the desired pod."""
        self.put("update_pod", args)

    @workflow.signal
    def delete_pod(self, *args: Any) -> None:
        """End the pod: ``{"gracePeriodSeconds": 30}``, or ``{}`` for its own grace."""
        self.put("delete_pod", args)

    @workflow.signal
    def pleg(self, *args: Any) -> None:
        """Take the pod as the runtime has it, from the node's agent."""
        self.put("pleg", args)

    @workflow.signal
    def probe(self, *args: Any) -> None:
        """Take a probe's changed result, from the node's agent."""
        self.put("probe", args)

    @workflow.signal
    def backoff_expired(self, *args: Any) -> None:
        """End a container's back-off: ``{"container": "web"}``; the node's queue names the restart too."""
        self.put("backoff_expired", args)

    @workflow.signal
    def restart(self, *args: Any) -> None:
        """End a container and start it again: ``{"container": "web"}``, or ``{}`` for every main container."""
        self.put("restart", args)

    @workflow.signal
    def set_condition(self, *args: Any) -> None:
        """Take a condition of another's, a readiness gate's: ``{"type": "example.com/a", "status": "True"}``."""
        self.put("set_condition", args)

    @workflow.signal
    def evict(self, *args: Any) -> None:
        """Put the pod out, for the node: ``{"uid": …, "reason": "Evicted", "message": …, "gracePeriodSeconds": 1}``."""
        self.put("evict", args)

    @workflow.signal
    def renew(self, *args: Any) -> None:
        """Continue as new at the next quiet point: what follows can be taken over by any worker, an older one too."""
        self.renewed = self.woken = True

    @workflow.signal(dynamic=True)
    def unknown(self, name: str, args: Sequence[RawValue]) -> None:
        """Show a signal of an unknown name as a rejection."""
        known = "update_pod, delete_pod, pleg, probe, backoff_expired, restart, set_condition, evict, renew"
        self.state.reject(workflow.now(), name, f"signal {name}: unknown, with {len(args)} payloads; known: {known}")
        self.woken = True

    # --- updates: validated before anything is written ----------------------------------------------------------------

    @workflow.update
    async def apply(self, *args: Any) -> dict[str, Any]:
        """Take one v1 Pod document as the desired pod; returns its UID and generation."""
        await self.change(desired.apply, args[0])
        return report.identity(self.state)

    @apply.validator
    def check_apply(self, *args: Any) -> None:
        """Refuse a document by the path of what is wrong."""
        self.check(desired.apply, args)

    @workflow.update
    async def resize(self, *args: Any) -> dict[str, Any]:
        """Change CPU and memory: ``{"containers": [{"name": "web", "resources": …}]}``; returns as `apply` does."""
        await self.change(desired.resize, args[0])
        return report.identity(self.state)

    @resize.validator
    def check_resize(self, *args: Any) -> None:
        """Refuse a resize by the path of what is wrong."""
        self.check(desired.resize, args)

    @workflow.update
    async def add_ephemeral_container(self, *args: Any) -> dict[str, Any]:
        """Add one v1 EphemeralContainer to the pod; returns the pod's UID and generation."""
        await self.change(desired.add_ephemeral_container, args[0])
        return report.identity(self.state)

    @add_ephemeral_container.validator
    def check_add_ephemeral_container(self, *args: Any) -> None:
        """Refuse a container by the path of what is wrong."""
        self.check(desired.try_ephemeral_container, args)

    @workflow.update
    async def delete(self, *args: Any) -> dict[str, Any]:
        """End the pod, as the signal ``delete_pod`` does; returns its UID and generation."""
        await self.change(desired.delete, args[0] if args else {})
        return report.identity(self.state)

    @delete.validator
    def check_delete(self, *args: Any) -> None:
        """Refuse a wrong payload."""
        self.check(desired.delete, args or ({},))

    async def change(self, change: Callable[[PodState, Any, datetime], Any], document: Any) -> None:
        """Carry an accepted update out, after what came before it; what that has made impossible is refused here."""
        await self.take_in()
        self.woken = True
        try:
            change(self.state, document, workflow.now())
        except (desired.Rejected, ValueError) as wrong:
            raise ApplicationError(str(wrong), type="Invalid", non_retryable=True) from None

    def check(self, change: Callable[[PodState, Any, datetime], Any], args: Sequence[Any]) -> None:
        """Try a change on a copy of the state, so that nothing is written for what is wrong."""
        if self.refusal:
            raise ApplicationError(self.refusal, type="Invalid", non_retryable=True)
        if self.state.removed:
            raise ApplicationError("the pod is gone; apply it again", type="Gone", non_retryable=True)
        if len(args) != 1:
            raise ApplicationError(f"takes one payload, got {len(args)}", type="Invalid", non_retryable=True)
        try:
            change(self.state.model_copy(), args[0], workflow.now())
        except (desired.Rejected, ValueError) as wrong:
            raise ApplicationError(str(wrong), type="Invalid", non_retryable=True) from None

    # --- queries ------------------------------------------------------------------------------------------------------

    @workflow.query
    def pod(self) -> dict[str, Any]:
        """Return the whole Pod with its status, as ``kubectl get -o json`` has it."""
        return pod_to_wire(desired.as_pod(self.state))

    @workflow.query
    def plan(self, candidate: Any = None, update: str = "apply") -> dict[str, Any]:
        """Return the steps that would be taken now; with a candidate Pod, those that applying it would lead to.

        With `update` ``resize``, the candidate is what that update takes.
        """
        return report.plan(self.state, candidate, workflow.now(), update=update)

    @workflow.query
    def history(self) -> list[dict[str, Any]]:
        """Return each decision, step, signal and exit with time, reason and attempt, oldest first."""
        return [record.model_dump(mode="json", by_alias=True) for record in self.state.history]

    @workflow.query
    def events(self) -> list[dict[str, Any]]:
        """Return the pod's events in the kubelet's words, rejections among them, oldest first."""
        return [event.model_dump(mode="json", by_alias=True) for event in self.state.events]


def decoded(result: RawValue) -> Any:
    """Return what a step has returned, as JSON; None where it cannot be decoded (somebody completed it by hand)."""
    try:
        return workflow.payload_converter().from_payload(result.payload)
    except Exception:  # noqa: BLE001  # a converter may raise anything, and this result is in the history for ever
        return None
