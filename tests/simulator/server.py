"""A Temporal server for one workflow id, in this process: it drives the SDK's own instance of the real PodWorkflow.

No code of the workflow is copied: each run is an instance as in a worker, with the same activations (start, signals,
updates, timers, results of activities), and its commands are carried out here. A run can be evicted from the worker's
cache at any time; it is then replayed from its start in a new instance, and must produce the same commands and state.

History is counted in events, as in a server: 3 for a workflow task (scheduled, started, completed), 3 for an
activity (scheduled, started, its end) and 1 for its cancellation, 2 for a timer (started, fired or cancelled), 1 for a
signal, 2 for an accepted update (accepted, completed), none for a refused one, 2 for a patch (its marker, the search
attribute that lists it), 1 each for the run's start and end and for search attributes. Retries are not in history.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import (
    ActivityFailureInfo,
    ApplicationFailureInfo,
    CanceledFailureInfo,
    Failure,
    TimeoutFailureInfo,
)
from temporalio.bridge.proto.activity_result import ActivityResolution, Cancellation, Success
from temporalio.bridge.proto.activity_result import Failure as FailedActivity
from temporalio.bridge.proto.workflow_activation import (
    CancelWorkflow,
    DoUpdate,
    FireTimer,
    InitializeWorkflow,
    NotifyHasPatch,
    ResolveActivity,
    SignalWorkflow,
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.common import Priority, TypedSearchAttributes
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker._workflow_instance import WorkflowInstance, WorkflowInstanceDetails
from temporalio.workflow import Info, _Definition

from syncpod.lifecycle.version import build_id
from syncpod.messages.identity import POD_WORKFLOW, EndedLife
from syncpod.temporal.plugin import DATA_CONVERTER
from tests.simulator.clock import Clock, Due, moment
from tests.simulator.violation import Violation
from workflows.pod.state import PodState
from workflows.pod.step_runner import HEARTBEAT_TIMEOUT, RETRY
from workflows.pod.workflow import PodWorkflow

WORKFLOW_ID = "pod/default/web"
QUEUE = "node/node-1"
TASK_SECONDS = 0.002
"""The delay from an event to the workflow's task if there is a worker; events within it share a task."""
MANY_TASKS = 2_000
"""The number of workflow tasks of a simulation that counts as an endless loop."""

_DEFINITION = _Definition.must_from_class(PodWorkflow)
_RUNNER = UnsandboxedWorkflowRunner()
_OUTER_LOOP = asyncio.new_event_loop()


def payload(value: Any) -> Payload:
    """Return a value as it is encoded by the project's converter, as plain JSON."""
    return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(value, separators=(",", ":")).encode())


@dataclass
class Activity:
    """One activity of a run, with all its attempts."""

    seq: int
    name: str
    argument: dict[str, Any]
    start_to_close: float
    scheduled: float
    attempt: int = 1
    cancelling: bool = False
    waiting: Due | None = None
    """The next attempt, while none is running."""
    deadline: Due | None = None
    """The deadline of the running attempt by its start-to-close timeout."""
    closed: bool = False


@dataclass
class Run:
    """One run of the workflow: its history, and the worker's cached instance."""

    id: str
    input: Payload
    started: float
    seed: int
    instance: WorkflowInstance | None = None
    tasks: list[tuple[WorkflowActivation, list[WorkflowCommand]]] = field(default_factory=list)
    """The workflow tasks: the activation and the resulting commands of each."""
    pending: list[WorkflowActivationJob] = field(default_factory=list)
    """The jobs since the last task."""
    events: int = 1
    timers: dict[int, Due] = field(default_factory=dict)
    activities: dict[int, Activity] = field(default_factory=dict)


class Server:
    """The server. It calls `start_try` for each attempt of an activity, and `cancel_try` to cancel one.

    `left` is called with the life of a pod of which a workflow that ends leaves the rest to the node.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        start_try: Callable[[Activity], None],
        cancel_try: Callable[[Activity], None],
        arm_backoff: Callable[[str, int, float | None], None],
        scheduled: Callable[[Activity], None],
        decided: Callable[[], None],
        left: Callable[[EndedLife], None],
    ) -> None:
        self.clock = clock
        self._start_try, self._cancel_try, self._arm = start_try, cancel_try, arm_backoff
        self._scheduled, self._decided, self._left = scheduled, decided, left
        self.worker = True
        """Whether a worker polls."""
        self.build_id = build_id("syncpod", "0" * 12)
        """The build id of the polling worker, which determines its version of decisions."""
        self.run: Run | None = None
        self.result: dict[str, Any] | None = None
        """The result of the workflow."""
        self.runs = 0
        self.tasks = 0
        self.most_tasks = MANY_TASKS
        self.replays = 0
        self.longest = 0
        """The most events of any run."""
        self.largest_snapshot = 0
        """The size in bytes of the largest snapshot."""
        self.suggests = False
        """Whether the next task gets the suggestion to continue as new."""
        self.suggests_at = 0
        """The length of history from which every task gets that suggestion; 0 = never."""
        self.late_signals: list[tuple[str, Any]] = []
        """Signals that come while a task is under way that would end its run: a server refuses that (UnhandledCommand).
        """
        self.listed: list[dict[str, Any]] = []
        """The search attributes after each upsert, oldest first."""
        self._task: Due | None = None
        self._updates: dict[str, Callable[[str], None] | None] = {}

    # --- what others ask for ------------------------------------------------------------------------------------------

    def start(self, argument: Any) -> None:
        """Start the workflow."""
        self._begin(payload(argument))

    def signal(self, name: str, *values: Any) -> bool:
        """Record a signal; return whether there is a workflow."""
        if self.run is None:
            return False
        signal = SignalWorkflow(signal_name=name, input=[payload(value) for value in values], identity="simulator")
        signal.originating_event_id = self.run.events + 1
        self._happened(WorkflowActivationJob(signal_workflow=signal), events=1)
        return True

    def update(self, name: str, value: Any, answered: Callable[[str], None] | None = None) -> bool:
        """Send an update; `answered` is called with "" once it has completed, or with the reason of its refusal."""
        if self.run is None:
            return False
        update_id = f"update-{len(self._updates)}"
        self._updates[update_id] = answered
        update = DoUpdate(
            id=update_id, protocol_instance_id=update_id, name=name, input=[payload(value)], run_validator=True
        )
        self._happened(WorkflowActivationJob(do_update=update), events=0)
        return True

    def cancel(self) -> bool:
        """Request the workflow's cancellation, as `temporal workflow cancel` does."""
        if self.run is None:
            return False
        self._happened(WorkflowActivationJob(cancel_workflow=CancelWorkflow()), events=1)
        return True

    def evict(self) -> None:
        """Evict the run from the worker's cache, so that its next task replays it from its start."""
        if self.run is not None:
            self.run.instance = None

    def worker_stopped(self) -> None:
        """Stop the worker: nobody polls, and the cached run is lost."""
        self.worker = False
        self.evict()

    def worker_started(self) -> None:
        """Start a worker, which polls."""
        self.worker = True
        if self.run is not None and self.run.pending:
            self._wake()

    # --- what a node says of a try ------------------------------------------------------------------------------------

    def completed(self, activity: Activity, attempt: int, result: Payload | None) -> bool:
        """Accept the result of an attempt; return whether the run was waiting for it."""
        if not self._is_current(activity, attempt):
            return False
        self._close(activity, ActivityResolution(completed=Success(result=result)))
        return True

    def cancelled(self, activity: Activity, attempt: int) -> None:
        """Accept the end of a cancelled attempt."""
        if self._is_current(activity, attempt):
            self._close(activity, _cancelled(activity))

    def failed(
        self, activity: Activity, attempt: int, kind: str, message: str, detail: Any = None, *, retryable: bool = False
    ) -> None:
        """Accept the failure of an attempt, which is retried if the policy says so."""
        if not self._is_current(activity, attempt):
            return
        if retryable and not activity.cancelling:
            self._retry(activity)
            return
        info = ApplicationFailureInfo(type=kind, non_retryable=not retryable)
        if detail is not None:
            info.details.CopyFrom(Payloads(payloads=[payload(detail)]))
        self._close(activity, _failed(activity, Failure(message=message, application_failure_info=info)))

    def silent(self, activity: Activity, attempt: int) -> None:
        """Record that an attempt sends no more heartbeats."""
        self.clock.after(HEARTBEAT_TIMEOUT.total_seconds(), lambda: self.timed_out(activity, attempt, "heartbeat"))

    def timed_out(self, activity: Activity, attempt: int, which: str) -> None:
        """End an attempt that has timed out."""
        if not self._is_current(activity, attempt):
            return
        if not activity.cancelling:
            self._retry(activity)
            return
        heartbeat, whole = TimeoutType.TIMEOUT_TYPE_HEARTBEAT, TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE
        info = TimeoutFailureInfo(timeout_type=heartbeat if which == "heartbeat" else whole)
        self._close(
            activity, _failed(activity, Failure(message=f"activity {which} timeout", timeout_failure_info=info))
        )

    def fail_elder(self, activity: Activity) -> None:
        """Fail the running attempt retryably, as a new worker's agent does with attempts of the previous worker."""
        if not activity.closed and activity.waiting is None:
            self.failed(activity, activity.attempt, "WorkerRestarted", "its worker has died", retryable=True)

    @property
    def activities(self) -> tuple[Activity, ...]:
        """The activities that have not ended."""
        return tuple(self.run.activities.values()) if self.run is not None else ()

    # --- looking inside -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> PodState:
        """The state of the run after its last task. Raises Violation if there is no run."""
        return self.workflow.state

    @property
    def workflow(self) -> PodWorkflow:
        """The workflow object, replayed if it is not cached. Raises Violation if there is no run."""
        if self.run is None or not (self.run.tasks or self.run.instance):
            raise Violation("there is no run to look into")
        workflow: PodWorkflow = self._cached(self.run)._object  # type: ignore[attr-defined]
        return workflow

    # --- runs and tasks -----------------------------------------------------------------------------------------------

    def _begin(self, argument: Payload) -> None:
        self.runs += 1
        self.run = Run(f"run-{self.runs}", argument, self.clock.now, seed=self.runs)
        start = InitializeWorkflow(
            workflow_type=POD_WORKFLOW,
            workflow_id=WORKFLOW_ID,
            arguments=[argument],
            randomness_seed=self.run.seed,
            attempt=1,
            first_execution_run_id="run-1",
        )
        start.start_time.FromDatetime(moment(self.clock.now))
        self._happened(WorkflowActivationJob(initialize_workflow=start), events=0)

    def _happened(self, job: WorkflowActivationJob, *, events: int) -> None:
        assert self.run is not None
        self.run.events += events
        self.run.pending.append(job)
        self._wake()

    def _wake(self) -> None:
        if self._task is None and self.worker:
            self._task = self.clock.after(TASK_SECONDS, self._perform_task)

    def _perform_task(self) -> None:
        self._task = None
        run = self.run
        if run is None or not self.worker or not run.pending:
            return
        self.tasks += 1
        if self.tasks > self.most_tasks:
            raise Violation(f"more than {self.most_tasks} workflow tasks: the loop goes round and round")
        instance = self._cached(run)
        jobs, run.pending = run.pending, []
        task = WorkflowActivation(run_id=run.id, history_length=run.events + 2, jobs=jobs)
        task.timestamp.FromDatetime(moment(self.clock.now))
        task.deployment_version_for_current_task.build_id = self.build_id
        long = 0 < self.suggests_at <= run.events
        task.continue_as_new_suggested = self.suggests or long
        commands = _activated(instance, task)
        if self.late_signals and any(_ends_run(command) for command in commands):
            # What the task did is forgotten, and it is done again with the signal that came while it was under way.
            name, value = self.late_signals.pop(0)
            run.pending, run.instance = [*jobs, *run.pending], None
            self.signal(name, value)
            return
        if not _only_refusals(jobs, commands):
            run.events += 3
            run.tasks.append((task, commands))
        # What is scheduled and cancelled in one task never reaches a node.
        withdrawn = {each.request_cancel_activity.seq for each in commands if each.HasField("request_cancel_activity")}
        for command in commands:
            if command.HasField("schedule_activity") and command.schedule_activity.seq in withdrawn:
                self._withdraw(run, command.schedule_activity.seq)
            else:
                self._carry_out(run, command)
        self.longest = max(self.longest, run.events)
        if self.run is run:
            self._decided()

    def _cached(self, run: Run) -> WorkflowInstance:
        """Return the cached instance of the run, or a new, replayed one."""
        if run.instance is None:
            run.instance = self._instance(run)
            if run.tasks:
                self._replay(run, run.instance)
        return run.instance

    def _instance(self, run: Run) -> WorkflowInstance:
        now = moment(run.started)
        info = Info(
            attempt=1,
            continued_run_id=None,
            cron_schedule=None,
            execution_timeout=None,
            first_execution_run_id="run-1",
            headers={},
            namespace="default",
            original_execution_run_id=run.id,
            parent=None,
            root=None,
            raw_memo={},
            retry_policy=None,
            run_id=run.id,
            run_timeout=None,
            search_attributes={},
            start_time=now,
            workflow_start_time=now,
            task_queue=QUEUE,
            task_timeout=timedelta(seconds=3),
            typed_search_attributes=TypedSearchAttributes([]),
            workflow_id=WORKFLOW_ID,
            workflow_type=POD_WORKFLOW,
            priority=Priority(),
        )
        details = WorkflowInstanceDetails(
            payload_converter_factory=DATA_CONVERTER._new_payload_converter,
            failure_converter_class=DATA_CONVERTER.failure_converter_class,
            interceptor_classes=(),
            defn=_DEFINITION,
            info=info,
            randomness_seed=run.seed,
            extern_functions={"syncpod_arm_backoff": self._armed},
            disable_eager_activity_execution=False,
            worker_level_failure_exception_types=(),
            patch_activation_callback=None,
            last_completion_result=Payloads(),
            last_failure=None,
        )
        asyncio._set_running_loop(_OUTER_LOOP)  # an instance uses the running loop while it is made
        try:
            return _RUNNER.create_instance(details)
        finally:
            asyncio._set_running_loop(None)

    def _armed(self, workflow_id: str, subject: str, restart: int, delay: float | None) -> None:
        self._arm(subject, restart, delay)

    def _replay(self, run: Run, instance: WorkflowInstance) -> None:
        """Replay a run in a new instance. Raises Violation if its commands differ."""
        self.replays += 1
        for task, commands in run.tasks:
            refused = {each.update_response.protocol_instance_id for each in commands if _is_refusal(each)}
            again = WorkflowActivation(
                run_id=task.run_id,
                timestamp=task.timestamp,
                history_length=task.history_length,
                is_replaying=True,
                continue_as_new_suggested=task.continue_as_new_suggested,
                deployment_version_for_current_task=task.deployment_version_for_current_task,
            )
            for command in commands:
                if command.HasField("set_patch_marker"):
                    patch = NotifyHasPatch(patch_id=command.set_patch_marker.patch_id)
                    again.jobs.append(WorkflowActivationJob(notify_has_patch=patch))
            for job in task.jobs:
                if job.HasField("do_update"):
                    if job.do_update.protocol_instance_id in refused:
                        continue
                    job = WorkflowActivationJob(do_update=job.do_update)
                    job.do_update.run_validator = False
                again.jobs.append(job)
            expected = [each for each in commands if not _is_refusal(each)]
            given = _activated(instance, again)
            if given != expected:
                first = next((pair for pair in zip(expected, given, strict=False) if pair[0] != pair[1]), None)
                what = (
                    f"{len(expected)} commands, then {len(given)}" if first is None else f"{first[0]}\nthen {first[1]}"
                )
                raise Violation(f"replayed, the run does something else: first {what}")

    # --- commands -----------------------------------------------------------------------------------------------------

    def _carry_out(self, run: Run, command: WorkflowCommand) -> None:
        kind = command.WhichOneof("variant")
        match kind:
            case "schedule_activity":
                run.events += 1
                scheduled = command.schedule_activity
                activity = Activity(
                    scheduled.seq,
                    scheduled.activity_type,
                    json.loads(scheduled.arguments[0].data),
                    scheduled.start_to_close_timeout.ToTimedelta().total_seconds(),
                    self.clock.now,
                )
                run.activities[activity.seq] = activity
                self._scheduled(activity)
                self._try(activity)
            case "request_cancel_activity":
                run.events += 1
                self._request_cancel(run.activities.get(command.request_cancel_activity.seq))
            case "start_timer":
                run.events += 1
                timer = command.start_timer
                seconds = timer.start_to_fire_timeout.ToTimedelta().total_seconds()
                run.timers[timer.seq] = self.clock.after(seconds, lambda: self._fire(run, timer.seq))
            case "cancel_timer":
                timer_due = run.timers.pop(command.cancel_timer.seq, None)
                if timer_due is not None:  # else it has fired just before
                    run.events += 1
                    timer_due.cancel()
            case "update_response":
                self._answer(run, command)
            case "set_patch_marker":
                run.events += 2
            case "upsert_workflow_search_attributes":
                run.events += 1
                fields = command.upsert_workflow_search_attributes.search_attributes.indexed_fields
                written = {name: json.loads(each.data) for name, each in fields.items()}
                self.listed.append((self.listed[-1] if self.listed else {}) | written)
            case "continue_as_new_workflow_execution":
                self._leave_remains()
                self._end(run)
                self.suggests = False
                snapshot = command.continue_as_new_workflow_execution.arguments[0]
                self.largest_snapshot = max(self.largest_snapshot, len(snapshot.data))
                self._begin(snapshot)
            case "complete_workflow_execution":
                self._leave_remains()
                self._end(run)
                self.run = None
                self.result = json.loads(command.complete_workflow_execution.result.data)
            case _:
                raise Violation(f"the workflow ends with {kind}: {command}")

    def _leave_remains(self) -> None:
        """Let the node remove the pod's remains, if its life is over."""
        if self.state.removed:
            self._left(EndedLife(self.state.ref, self.state.stopped_sandboxes, self.state.observed))

    def _withdraw(self, run: Run, seq: int) -> None:
        run.events += 3
        cancelled = Cancellation(
            failure=Failure(message="Activity cancelled", activity_failure_info=ActivityFailureInfo())
        )
        cancelled.failure.cause.CopyFrom(Failure(message="cancelled", canceled_failure_info=CanceledFailureInfo()))
        resolution = ResolveActivity(seq=seq, result=ActivityResolution(cancelled=cancelled))
        self._happened(WorkflowActivationJob(resolve_activity=resolution), events=0)

    def _end(self, run: Run) -> None:
        run.events += 1
        if run.activities:
            raise Violation(f"a run ends with steps under way: {[each.name for each in run.activities.values()]}")
        for timer in run.timers.values():
            timer.cancel()

    def _fire(self, run: Run, seq: int) -> None:
        if self.run is run and run.timers.pop(seq, None) is not None:
            self._happened(WorkflowActivationJob(fire_timer=FireTimer(seq=seq)), events=1)

    def _answer(self, run: Run, command: WorkflowCommand) -> None:
        response = command.update_response
        if response.HasField("accepted"):
            run.events += 1
            return
        answered = self._updates.get(response.protocol_instance_id)
        completed = response.HasField("completed")
        run.events += 1 if completed else 0
        if answered is not None:
            answered("" if completed else response.rejected.message)

    # --- activities ---------------------------------------------------------------------------------------------------

    def _try(self, activity: Activity) -> None:
        activity.waiting = None
        attempt = activity.attempt
        activity.deadline = self.clock.after(
            activity.start_to_close, lambda: self.timed_out(activity, attempt, "startToClose")
        )
        self._start_try(activity)

    def _retry(self, activity: Activity) -> None:
        if activity.deadline is not None:
            activity.deadline.cancel()
        first, longest = (
            RETRY.initial_interval.total_seconds(),
            (RETRY.maximum_interval or timedelta(5)).total_seconds(),
        )
        pause = min(first * RETRY.backoff_coefficient ** min(activity.attempt - 1, 20), longest)
        activity.attempt += 1
        activity.waiting = self.clock.after(pause, lambda: self._try(activity))

    def _request_cancel(self, activity: Activity | None) -> None:
        if activity is None or activity.closed:
            return
        activity.cancelling = True
        if activity.waiting is not None:
            activity.waiting.cancel()
            self._close(activity, _cancelled(activity))
        else:
            self._cancel_try(activity)

    def _is_current(self, activity: Activity, attempt: int) -> bool:
        return not activity.closed and activity.attempt == attempt and activity.waiting is None

    def _close(self, activity: Activity, resolution: ActivityResolution) -> None:
        activity.closed = True
        if activity.deadline is not None:
            activity.deadline.cancel()
        assert self.run is not None
        del self.run.activities[activity.seq]
        job = WorkflowActivationJob(resolve_activity=ResolveActivity(seq=activity.seq, result=resolution))
        self._happened(job, events=2)


def _activated(instance: WorkflowInstance, task: WorkflowActivation) -> list[WorkflowCommand]:
    asyncio._set_running_loop(_OUTER_LOOP)
    try:
        completion = instance.activate(task)
    finally:
        asyncio._set_running_loop(None)
    if completion.HasField("failed"):
        failure = completion.failed.failure
        raise Violation(f"a workflow task fails: {failure.message}\n{failure.stack_trace}")
    return list(completion.successful.commands)


def _ends_run(command: WorkflowCommand) -> bool:
    return command.HasField("continue_as_new_workflow_execution") or command.HasField("complete_workflow_execution")


def _is_refusal(command: WorkflowCommand) -> bool:
    return command.HasField("update_response") and command.update_response.HasField("rejected")


def _only_refusals(jobs: list[WorkflowActivationJob], commands: list[WorkflowCommand]) -> bool:
    """Return whether a task leaves no event in history, because it had only updates and refused them all."""
    return all(job.HasField("do_update") for job in jobs) and all(_is_refusal(each) for each in commands)


def _failed(activity: Activity, cause: Failure) -> ActivityResolution:
    failure = Failure(message="Activity task failed", activity_failure_info=_info(activity), cause=cause)
    return ActivityResolution(failed=FailedActivity(failure=failure))


def _cancelled(activity: Activity) -> ActivityResolution:
    failure = Failure(message="Activity cancelled", activity_failure_info=_info(activity))
    failure.cause.CopyFrom(Failure(message="cancelled", canceled_failure_info=CanceledFailureInfo()))
    return ActivityResolution(cancelled=Cancellation(failure=failure))


def _info(activity: Activity) -> ActivityFailureInfo:
    info = ActivityFailureInfo(activity_id=str(activity.seq))
    info.activity_type.name = activity.name
    return info
