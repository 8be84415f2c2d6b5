"""Reports to the node's agent when steps begin and end, and has it signal the end of back-offs."""

from __future__ import annotations

from typing import Any, Protocol

from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from syncpod.messages.identity import PodRef
from syncpod.messages.steps import KillPod, StepInput
from syncpod.temporal.workflow_watch import PUBLISH, WatchedRunner

ARM_BACKOFF = "syncpod_arm_backoff"
"""Extern function ``(workflow_id, container, restart, delay_seconds)``. A workflow, while not replaying, calls it so
that the node's agent signals the end of a back-off; a delay of None cancels that."""


class NodeHooks(Protocol):
    """What the node's agent implements. Without hooks (command line, replayer) nothing is called."""

    def arm_backoff(self, workflow_id: str, container: str, restart: int, delay_seconds: float | None) -> None:
        """Signal the end of a back-off after the delay; None cancels that. Called from threads of workflow tasks."""

    def step_began(self, ref: PodRef, *, kills: bool) -> None:
        """Note that an attempt of a step of the pod begins; `kills` if it ends everything that runs of the pod.

        Called in the worker's event loop, as is `step_ended`.
        """

    def step_ended(self, ref: PodRef, fault: str) -> None:
        """Note that the attempt has ended: successfully (""), or with a fault of that type."""


class NodeInterceptor(Interceptor):
    """Tells the node's agent about steps and back-offs."""

    def __init__(self, hooks: NodeHooks | None, watched: WatchedRunner | None = None) -> None:
        self._hooks = hooks
        self._watched = watched

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Report when an attempt of a step begins and ends."""
        return _ReportsSteps(next, self._hooks) if self._hooks else next

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Give workflows the functions that arm the back-off queue and that publish their state."""
        if self._watched is not None:
            input.unsafe_extern_functions[PUBLISH] = self._watched.stage
        input.unsafe_extern_functions[ARM_BACKOFF] = self._hooks.arm_backoff if self._hooks else _arm_nothing
        return None


class _ReportsSteps(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, hooks: NodeHooks) -> None:
        super().__init__(next)
        self._hooks = hooks

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        request = input.args[0] if input.args else None
        if not isinstance(request, StepInput):
            return await super().execute_activity(input)
        self._hooks.step_began(request.ref, kills=isinstance(request, KillPod))
        fault = "cancelled"
        try:
            result = await super().execute_activity(input)
            fault = ""
            return result
        except ApplicationError as error:
            fault = error.type or "Error"
            raise
        finally:
            self._hooks.step_ended(request.ref, fault)


def _arm_nothing(workflow_id: str, container: str, restart: int, delay_seconds: float | None) -> None:
    """Do nothing: there is no node here, and the workflow's own timer ends the back-off."""
