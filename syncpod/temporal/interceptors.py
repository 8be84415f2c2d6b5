"""Connects a worker with the node's agent: reports when steps begin and end, and arms the agent's back-off queue."""

from __future__ import annotations

from typing import Any, Final, Protocol

from temporalio import workflow
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    HandleQueryInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from syncpod.messages.identity import PodRef
from syncpod.messages.node import NODE_WORKFLOW
from syncpod.messages.steps import KillPod, StepInput
from syncpod.messages.worker_functions import ARM_BACKOFF, PODS_PAGE, PUBLISH
from syncpod.temporal.workflow_watch import WatchedRunner

_METADATA: Final = "__temporal_workflow_metadata"
"""The query that the Temporal UI sends for a workflow's current details."""


class NodeHooks(Protocol):
    """The agent's side of steps and back-offs. Without hooks (command line, replayer) nothing is called."""

    def arm_backoff(self, workflow_id: str, subject: str, restart: int, delay_seconds: float | None) -> None:
        """Signal the end of a back-off after the delay; None cancels the signal. Called in workflow tasks' threads."""

    def step_began(self, ref: PodRef, *, kills: bool) -> None:
        """Note that an attempt of a step of the pod begins; `kills` if it ends the whole pod.

        Called in the worker's event loop, as is `step_ended`.
        """

    def step_ended(self, ref: PodRef, fault: str) -> None:
        """Note that the attempt has ended. `fault` is "" after a success, else the type of the fault."""


class NodeInterceptor(Interceptor):
    """Calls the agent's hooks for steps, and gives workflows the functions of their worker."""

    def __init__(self, hooks: NodeHooks | None, watched: WatchedRunner | None = None) -> None:
        self._hooks = hooks
        self._watched = watched

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Report when an attempt of a step begins and ends."""
        return _ReportsSteps(next, self._hooks) if self._hooks else next

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Give workflows the functions that arm the back-off queue and publish their state; show a node's pods."""
        input.unsafe_extern_functions[ARM_BACKOFF] = self._hooks.arm_backoff if self._hooks else _arm_nothing
        if self._watched is None:
            return None
        input.unsafe_extern_functions[PUBLISH] = self._watched.stage
        input.unsafe_extern_functions[PODS_PAGE] = self._watched.pods_page
        return _ShowsPods


class _ShowsPods(WorkflowInboundInterceptor):
    """Adds the worker's pods to the node's page in the Temporal UI, whenever the UI queries it.

    The node's workflow has only the pods of its lists. Signals about all others would cost an event for each change of
    a pod, and a query costs none.
    """

    async def handle_query(self, input: HandleQueryInput) -> Any:
        answer = await super().handle_query(input)
        if input.query == _METADATA and workflow.info().workflow_type == NODE_WORKFLOW:
            parts = (answer.current_details, workflow.extern_functions()[PODS_PAGE]())
            answer.current_details = "\n\n".join(filter(None, parts))
        return answer


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


def _arm_nothing(workflow_id: str, subject: str, restart: int, delay_seconds: float | None) -> None:
    """Do nothing: there is no node here, and the workflow's own timer ends the back-off."""
