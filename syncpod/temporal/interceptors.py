"""Gives workflows the functions of their worker's agent, and shows the worker's pods on the node's page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from temporalio import workflow
from temporalio.worker import (
    HandleQueryInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from syncpod.messages.node import NODE_WORKFLOW
from syncpod.messages.worker_functions import ARM_BACKOFF, PODS_PAGE, PUBLISH
from syncpod.temporal.workflow_watch import WatchedRunner

_METADATA: Final = "__temporal_workflow_metadata"
"""The query that the Temporal UI sends for a workflow's current details."""


ArmBackoff = Callable[[str, str, int, float | None], None]
"""Signals the end of a back-off, by workflow id, subject and restart, after a delay in seconds; a delay of None cancels
the signal. Called in the threads of workflow tasks."""


class NodeInterceptor(Interceptor):
    """Gives workflows the functions of their worker."""

    def __init__(self, arm_backoff: ArmBackoff | None, watched: WatchedRunner | None = None) -> None:
        """Give workflows `arm_backoff`. If it is None, as in a replayer, the workflows' own timers end back-offs."""
        self._arm_backoff = arm_backoff or _arm_nothing
        self._watched = watched

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Give workflows the functions that arm the back-off queue, publish their state, and list a node's pods."""
        input.unsafe_extern_functions[ARM_BACKOFF] = self._arm_backoff
        if self._watched is None:
            return None
        input.unsafe_extern_functions[PUBLISH] = self._watched.stage
        input.unsafe_extern_functions[PODS_PAGE] = self._watched.pods_page
        return _ShowsPods


class _ShowsPods(WorkflowInboundInterceptor):
    """Adds the worker's pods to the node's page in the Temporal UI, whenever the UI queries it.

    The node's workflow has only the pods of its lists. Signals about all other pods would cost an event for each change
    of a pod, and a query costs none.
    """

    async def handle_query(self, input: HandleQueryInput) -> Any:
        answer = await super().handle_query(input)
        if input.query == _METADATA and workflow.info().workflow_type == NODE_WORKFLOW:
            parts = (answer.current_details, workflow.extern_functions()[PODS_PAGE]())
            answer.current_details = "\n\n".join(filter(None, parts))
        return answer


def _arm_nothing(workflow_id: str, subject: str, restart: int, delay_seconds: float | None) -> None:
    """Do nothing: there is no node here, and the workflow's own timer ends the back-off."""
