"""Hands the workflow tasks in a dead worker's sticky queue back to the server.

The server puts a task of a cached workflow into the queue of the worker that caches the workflow, and takes the task
back after the sticky schedule-to-start timeout. Resetting the workflow's stickiness changes where its next task goes,
but the pending task stays in the old queue until the timeout. So the new worker polls the dead worker's queue and fails
each task in it. The server then schedules the task again at once, for any worker of the node.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueKind, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryReverseRequest,
    PollWorkflowTaskQueueRequest,
    RespondWorkflowTaskFailedRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.background import cancel_all

log = logging.getLogger(__name__)

_RPC = timedelta(seconds=5)
_POLL = timedelta(seconds=5)
"""The timeout of a poll; the server requires more than two seconds. A task in the queue is returned at once. If there
is none, the server answers a second before the timeout."""
_LATE_POLLS = 24
"""How many polls may time out without an answer: for two minutes, twice the time that a task stays in the queue. Such a
timeout does not show that the queue is empty."""
_LATE = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
"""The status of a poll that timed out. CANCELLED comes from the SDK's own clock."""
_RECENT = 500
"""How many of a run's last events are read: many may have been added since its last task."""
_POLLERS = 4


class StickyQueues:
    """The sticky queues of this node's dead workers: each is emptied once for all pods that have a task in it."""

    def __init__(self, client: Client, task_queue: str, identity: str) -> None:
        """Empty queues that belong to workers of `task_queue`, as the worker `identity`."""
        self._client = client
        self._task_queue = task_queue
        self._identity = identity
        self._emptying: dict[str, asyncio.Task[None]] = {}

    async def empty_that_of(self, execution: WorkflowExecution) -> None:
        """Begin to empty the dead worker's queue in which a workflow's pending task may lie.

        Does not wait until the queue is empty, since that takes seconds. Raises RPCError.
        """
        name = await self._queue_of(execution)
        if name and name not in self._emptying:
            self._emptying[name] = asyncio.create_task(self._empty(name), name=f"empty {name}")

    async def close(self) -> None:
        """Stop; the server returns the remaining tasks after their timeout."""
        await cancel_all(self._emptying.values())

    async def _queue_of(self, execution: WorkflowExecution) -> str:
        """Return the sticky queue of the dead worker that completed the workflow's last task; "" if it is not known.

        An update's task is not in the history until it has ended, but all tasks for one worker are in the same queue.
        If this worker itself completed the last task, the queue is its own, and must not be emptied: then "" too.
        """
        history = await self._client.workflow_service.get_workflow_execution_history_reverse(
            GetWorkflowExecutionHistoryReverseRequest(
                namespace=self._client.namespace, execution=execution, maximum_page_size=_RECENT
            ),
            retry=True,
            timeout=_RPC,
        )
        name = by = ""
        for event in history.history.events:
            if event.HasField("workflow_task_scheduled_event_attributes") and not name:
                queue = event.workflow_task_scheduled_event_attributes.task_queue
                name = queue.name if queue.kind == TaskQueueKind.TASK_QUEUE_KIND_STICKY else ""
            if event.HasField("workflow_task_completed_event_attributes") and not by:
                by = event.workflow_task_completed_event_attributes.identity
        return name if by not in ("", self._identity) else ""

    async def _empty(self, name: str) -> None:
        try:
            counts = await asyncio.gather(*(self._hand_back_all(name) for _ in range(_POLLERS)))
        except RPCError as error:
            log.warning("workflow tasks of the last worker wait for their timeout: %s", error.message)
        else:
            log.info("handed back %d workflow tasks of the last worker", sum(counts))

    async def _hand_back_all(self, name: str) -> int:
        """Hand back the queue's tasks one by one until it is empty; return how many there were. Raises RPCError."""
        count = 0
        while token := await self._polled(name):
            await self._hand_back(token)
            count += 1
        return count

    async def _polled(self, name: str) -> bytes:
        """Return the token of a task in the queue; b"" if the queue is empty. Raises RPCError.

        A server that finds no task sends an empty answer before the poll times out. If a poll times out, the server is
        busy, and the queue may have tasks: the poll is repeated.
        """
        queue = TaskQueue(name=name, kind=TaskQueueKind.TASK_QUEUE_KIND_STICKY, normal_name=self._task_queue)
        request = PollWorkflowTaskQueueRequest(
            namespace=self._client.namespace, task_queue=queue, identity=self._identity
        )
        late = 0
        while True:
            try:
                polled = await self._client.workflow_service.poll_workflow_task_queue(request, timeout=_POLL)
            except RPCError as error:
                late += 1
                if error.status not in _LATE or late == _LATE_POLLS:
                    raise
            else:
                return polled.task_token

    async def _hand_back(self, token: bytes) -> None:
        request = RespondWorkflowTaskFailedRequest(
            namespace=self._client.namespace,
            task_token=token,
            cause=WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
            failure=Failure(message="the worker that had this workflow in its cache is gone", source="syncpod"),
            identity=self._identity,
        )
        try:
            await self._client.workflow_service.respond_workflow_task_failed(request, retry=True, timeout=_RPC)
        except RPCError as error:
            # The run has ended, or its task has been taken back meanwhile.
            if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
                raise
