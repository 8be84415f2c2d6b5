"""Signs what workflows give their steps and their next runs, and refuses steps whose input is not accepted."""

from __future__ import annotations

from typing import Any, NoReturn

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

from syncpod.messages.signed import INPUT, START, Marked, Refused
from syncpod.temporal.signing import CONTINUED

UNSIGNED = "Unsigned"
"""The type of the failure of a step whose input was not accepted."""


class SigningWorker(Interceptor):
    """Marks what workflows give their steps and their next runs, and refuses steps whose input is not accepted."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # the SDK's name
        """Wrap the steps."""
        return _RefusesSteps(next)

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # the SDK's name
    ) -> type[WorkflowInboundInterceptor]:
        """Wrap the workflows' calls."""
        return _Signs


class _RefusesSteps(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # the SDK's name
        info = activity.info()
        refusal = next((each.why for each in input.args if isinstance(each, Refused)), "")
        if not input.args:
            refusal = "it has no payload that could be signed"
        elif not refusal and info.workflow_run_id and not info.activity_id.startswith(info.workflow_run_id):
            refusal = "it is a copy from another run"
        if refusal:
            text = f"step {info.activity_type} is refused, since its input is not accepted: {refusal}"
            raise ApplicationError(text, type=UNSIGNED, non_retryable=True)
        return await super().execute_activity(input)


class _Signs(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_MarksSteps(outbound))


class _MarksSteps(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor) -> None:
        super().__init__(next)
        self._steps = 0

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # the SDK's name
        # Replay: an activity's id is part of the history. It names the run, which no other run may reuse, since a
        # step's result is signed for it.
        self._steps += 1
        input.activity_id = f"{workflow.info().run_id}-{self._steps}"
        input.args = [Marked(each, INPUT) for each in input.args]
        return super().start_activity(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:  # the SDK's name
        input.args = [Marked(each, START, CONTINUED) for each in input.args]
        super().continue_as_new(input)
