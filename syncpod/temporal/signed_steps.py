"""Marks the inputs of steps and of continued runs for signing, and refuses steps whose input is not accepted."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn

from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ContinueAsNewInput,
    ExecuteActivityInput,
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from syncpod.messages.signed import INPUT, START, Marked, Refused, continuing, microseconds
from syncpod.messages.worker_functions import BEGINS
from syncpod.temporal.signing import CONTINUED

UNSIGNED = "Unsigned"
"""The type of the failure of a step whose input was not accepted."""
LATEST: Final = timedelta(seconds=60)
"""How long after its workflow's decision a step may be scheduled. A server gives a workflow task ten seconds."""
REMEMBERED: Final = 10_000
"""How many scheduled steps are remembered: more than a node schedules within `LATEST`."""


class SigningWorker(Interceptor):
    """Marks the inputs of steps and of continued runs for signing, and refuses steps whose input is not accepted."""

    def __init__(self) -> None:
        """Begin without remembered steps."""
        self._schedules = Schedules()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # the SDK's name
        """Wrap the steps."""
        return _RefusesSteps(next, self._schedules)

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # the SDK's name
    ) -> type[WorkflowInboundInterceptor]:
        """Wrap the workflows' calls."""
        return _Signs


class Schedules:
    """Distinguishes the tries of a step from copies of the step.

    Anybody who polls the node's task queue can answer a workflow task in the worker's place, and schedule an ended step
    again, with its id and its signed input. All tries of a step have one scheduled time, by the server's clock, and a
    copy has a later one. This process remembers the scheduled time of each step. For a step that it has forgotten, it
    uses the time of the workflow's decision, which is part of the step's id.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, datetime] = OrderedDict()

    def refusal(self, step_id: str, run_id: str, scheduled: datetime) -> str:
        """Return why a try is refused, as a clause; "" if it is accepted. `scheduled` is the step's scheduled time."""
        decided = step_id.rpartition("-")[2]
        if not step_id.startswith(f"{run_id}-") or not decided.isdigit():
            return "it is a copy from another run"
        known = self._known.get(step_id, scheduled)
        if known != scheduled or scheduled.timestamp() - int(decided) > LATEST.total_seconds():
            return "it is a copy of a step that was scheduled before"
        self._known[step_id] = scheduled
        self._known.move_to_end(step_id)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return ""


class _RefusesSteps(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, schedules: Schedules) -> None:
        super().__init__(next)
        self._schedules = schedules

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # the SDK's name
        info = activity.info()
        refusal = next((each.why for each in input.args if isinstance(each, Refused)), "")
        if not input.args:
            refusal = "it has no payload that could be signed"
        elif not refusal and info.workflow_run_id:
            refusal = self._schedules.refusal(info.activity_id, info.workflow_run_id, info.scheduled_time)
        if refusal:
            text = f"step {info.activity_type} is refused, since its input is not accepted: {refusal}"
            raise ApplicationError(text, type=UNSIGNED, non_retryable=True)
        return await super().execute_activity(input)


class FleetSigningWorker(SigningWorker):
    """A `SigningWorker` for a fleet: the number of a continued run's start is taken from the server's clock.

    Each machine has its own clock, and a fleet's run refuses a start whose number does not match the time of its
    beginning (`syncpod.messages.signed.FleetCommands`). Otherwise a worker with a wrong clock would end the runs that
    it continues.
    """

    def __init__(self) -> None:
        """Begin without remembered steps and starts."""
        super().__init__()
        self._starts = Starts()

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # the SDK's name
    ) -> type[WorkflowInboundInterceptor]:
        """Wrap the workflows' calls, and give them the check whether a start has begun another run."""
        input.unsafe_extern_functions[BEGINS] = self._starts.refusal
        return _SignsForFleet


class Starts:
    """Distinguishes a start from a copy of it that begins another run soon after, if this process receives both.

    The result for a run stays the same as long as the process remembers its start.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int], str] = OrderedDict()

    def refusal(self, workflow_id: str, run_id: str, number: int) -> str:
        """Return why a run must not begin with a start of this number, as a clause; "" if it may."""
        if self._known.setdefault((workflow_id, number), run_id) != run_id:
            return "it is a copy of the start of another run"
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return ""


class _Signs(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_MarksSteps(outbound))


class _SignsForFleet(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_MarksForFleet(outbound))


class _MarksSteps(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor) -> None:
        super().__init__(next)
        self._steps = 0

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # the SDK's name
        # Replay: an activity's id is part of the history. It has the run's id, because a step's result is signed for
        # the activity's id and must not fit another run. It has the time of this task, since nobody may schedule the
        # step much later (`Schedules`).
        self._steps += 1
        input.activity_id = f"{workflow.info().run_id}-{self._steps}-{int(workflow.now().timestamp())}"
        input.args = [Marked(each, INPUT) for each in input.args]
        return super().start_activity(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:  # the SDK's name
        input.args = [self.start(each) for each in input.args]
        super().continue_as_new(input)

    def start(self, value: Any) -> Marked:
        """Return the next run's input, marked for signing."""
        return Marked(value, START, CONTINUED)


class _MarksForFleet(_MarksSteps):
    def start(self, value: Any) -> Marked:
        """Return the next run's input, marked to be signed only for that run, with the time by the server's clock."""
        return Marked(value, continuing(workflow.info().run_id), microseconds(workflow.now()))
