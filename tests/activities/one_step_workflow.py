"""A workflow that runs one step, as a pod's workflow does, and cancels it on a signal."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.actions import StepName
    from syncpod.messages.step_table import STEPS
    from syncpod.messages.steps import StepResult
    from workflows.pod.step_runner import HEARTBEAT_TIMEOUT, RETRY


@workflow.defn
class OneStep:
    """Runs the step and returns its result; after a pod-level fault, returns the fault's type and the result in it."""

    def __init__(self) -> None:
        self.cancelled = False

    @workflow.run
    async def run(self, name: str, request: dict[str, object]) -> tuple[str, StepResult | None]:
        spec = STEPS[StepName(name)]
        activity = workflow.start_activity(
            name,
            spec.input.model_validate(request),
            start_to_close_timeout=spec.start_to_close,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRY,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        await workflow.wait_condition(lambda: activity.done() or self.cancelled)
        if not activity.done():
            activity.cancel()
            workflow.extern_functions()["syncpod_step_cancelled"](workflow.info().workflow_id)
        try:
            result = StepResult.model_validate(await activity)
        except ActivityError as error:
            cause = error.cause
            assert isinstance(cause, ApplicationError)
            details = [StepResult.model_validate(detail) for detail in cause.details]
            return cause.type or "", details[0] if details else None
        return result.outcome.value, result

    @workflow.signal
    def cancel(self) -> None:
        self.cancelled = True
