"""What the node's agent hears from the worker: when steps begin and end, and when a back-off is to end."""

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

from syncpod.messages import KillPod, PodRef, StepInput

ARM_BACKOFF = "syncpod_arm_backoff"
"""Extern function ``(workflow_id, container, restart, delay_seconds)`` by which a workflow, not replaying, has the node
agent signal the end of a back-off; with no delay (None) the back-off is over, and need not be signalled."""


class NodeHooks(Protocol):
    """What the worker's node listens to. Without one (command line, replayer) nothing is called."""

    def arm_backoff(self, workflow_id: str, container: str, restart: int, delay_seconds: float | None) -> None:
        """Signal the end of a back-off then, or with None no more. Called from the threads of workflow tasks."""

    def step_began(self, ref: PodRef, *, kills: bool) -> None:
        """Hear that a try of a step of the pod begins; `kills` where it ends all that runs of the pod.

        Called in the worker's event loop, as the next.
        """

    def step_ended(self, ref: PodRef, fault: str) -> None:
        """Hear that it has ended, well ("") or with a fault of that type."""


class NodeInterceptor(Interceptor):
    """Tells the node's agent of steps and back-offs."""

    def __init__(self, hooks: NodeHooks | None) -> None:
        self._hooks = hooks

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Say when a try of a step begins and ends."""
        return _ToldOfSteps(next, self._hooks) if self._hooks else next

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Give workflows the function that arms the back-off queue."""
        input.unsafe_extern_functions[ARM_BACKOFF] = self._hooks.arm_backoff if self._hooks else _arm_nothing
        return None


class _ToldOfSteps(ActivityInboundInterceptor):
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
    """Do nothing: here is no node, and the workflow's own timer ends the back-off."""
