"""Takes over the pods of the node's previous worker, so that they continue at once.

A worker that died leaves behind, for each pod, a sticky queue that nobody polls, and perhaps a started step that nobody
runs. The server would notice this only by timeouts. The new worker need not wait, since it is the node's only worker.
For every open pod of its task queue it resets the sticky queue, hands back the tasks in it, and fails each step that
another identity started, with a retryable error, so that Temporal schedules the step again at once. So timeouts can be
long enough for a busy worker. Afterwards the agent signals each pod's workflow the runtime's current listing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState, PendingWorkflowTaskState, WorkflowExecutionStatus
from temporalio.api.failure.v1 import ApplicationFailureInfo, Failure
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    ResetStickyTaskQueueRequest,
    RespondActivityTaskCanceledByIdRequest,
    RespondActivityTaskFailedByIdRequest,
)
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.client import WorkflowExecution as ListedWorkflow
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.takeover.sticky_queues import StickyQueues
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import POD_WORKFLOW, PodRef, pod_workflow_id

log = logging.getLogger(__name__)

AT_ONCE = 16
"""How many pods are taken over at the same time."""
_RPC = timedelta(seconds=5)
_RETRY_SECONDS = 1.0
_STARTED = (
    PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
    PendingActivityState.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED,
)


@dataclass(frozen=True)
class OpenPod:
    """The open workflow of a pod of this node."""

    workflow_id: str
    ref: PodRef | None
    """The workflow's pod, if its search attributes and the runtime agree; None = the workflow must be queried."""


class Takeover:
    """Takes over the pods of this node from its previous worker."""

    def __init__(self, client: Client, task_queue: str, identity: str) -> None:
        self._client = client
        self._task_queue = task_queue
        self._identity = identity
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._sticky_queues = StickyQueues(client, task_queue, identity)

    async def close(self) -> None:
        """Stop emptying sticky queues; the server's timeouts return the tasks that remain in them."""
        await self._sticky_queues.close()

    async def open_pods(self, in_runtime: Iterable[ObservedPod]) -> tuple[OpenPod, ...]:
        """List the pods that may have an open workflow on this node's queue. Raises RPCError.

        They are read from visibility, which may lag, so pods in the runtime are included. A run that continues as a new
        pod may still have the deleted pod's search attributes. If the runtime has another pod of that name, `ref` is
        None.
        """
        said: dict[str, PodRef | None] = {}
        query = f"TaskQueue = '{self._task_queue}' AND WorkflowType = '{POD_WORKFLOW}' AND ExecutionStatus = 'Running'"
        async for listed in self._client.list_workflows(query, rpc_timeout=_RPC):
            said[listed.id] = _ref(listed)
        here: dict[str, list[PodRef]] = {}
        for pod in in_runtime:
            ref = PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
            here.setdefault(pod_workflow_id(pod.namespace, pod.name), []).append(ref)
        return tuple(OpenPod(id_, _agreed(said.get(id_), here.get(id_, []))) for id_ in sorted({*said, *here}))

    async def take(self, workflow_id: str) -> bool:
        """Take over one workflow; return whether it is open and of this node. Raises RPCError."""
        async with self._slots:
            execution = WorkflowExecution(workflow_id=workflow_id)
            try:
                described = await self._describe(execution)
                if not self._is_ours(described):
                    return False
                await self._unstick(described)
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    return False
                raise
            for step in described.pending_activities:
                if step.last_worker_identity == self._identity:
                    continue
                if step.state == PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED:
                    await self._cancel(described, step)
                elif step.state in _STARTED:
                    await self._fail(described, step)
            return True

    async def take_until_taken(self, workflow_id: str) -> bool:
        """Take over one workflow; retry while the server does not answer. The result is that of `take`."""
        while True:
            try:
                return await self.take(workflow_id)
            except RPCError as error:
                log.warning("workflow %s cannot be taken over yet: %s", workflow_id, error.message)
                await asyncio.sleep(_RETRY_SECONDS)

    async def query_ref(self, workflow_id: str) -> PodRef | None:
        """Query a workflow for its pod. The workflow answers once this worker polls. None = it is gone.

        A failed query is retried until it succeeds, and logged once. A query fails if the workflow's tasks fail, the
        server is busy, or the workflow is paused, a status that the SDK does not support (ValueError). An answer may
        lack a pod: the run has none, since its start was refused and it ends; or another client's worker has answered.
        """
        silent = False
        while True:
            try:
                pod = await self._client.get_workflow_handle(workflow_id).query("pod", rpc_timeout=_RPC)
                if (ref := _named(pod)) is not None:
                    return ref
                if not await self.take(workflow_id):
                    return None
                raise ValueError("its answer names no pod")
            except (RPCError, WorkflowQueryFailedError, ValueError) as error:
                if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
                    return None
                if not silent:
                    log.warning("workflow %s does not answer yet which pod it is: %s", workflow_id, error)
                silent = True
            await asyncio.sleep(_RETRY_SECONDS)

    async def _unstick(self, described: DescribeWorkflowExecutionResponse) -> None:
        """Free the workflow's next or pending task from the sticky queue, so that any worker of the node gets it."""
        execution = described.workflow_execution_info.execution
        waiting = (
            described.pending_workflow_task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
        )
        if waiting:
            # After a reset, the pending task would stay in the sticky queue until its timeout.
            await self._sticky_queues.empty_that_of(execution)
            return
        await self._client.workflow_service.reset_sticky_task_queue(
            ResetStickyTaskQueueRequest(
                namespace=self._client.namespace, execution=WorkflowExecution(workflow_id=execution.workflow_id)
            ),
            retry=True,
            timeout=_RPC,
        )

    async def _describe(self, execution: WorkflowExecution) -> DescribeWorkflowExecutionResponse:
        return await self._client.workflow_service.describe_workflow_execution(
            DescribeWorkflowExecutionRequest(namespace=self._client.namespace, execution=execution),
            retry=True,
            timeout=_RPC,
        )

    def _is_ours(self, described: DescribeWorkflowExecutionResponse) -> bool:
        info = described.workflow_execution_info
        return (
            info.status == WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
            and described.execution_config.task_queue.name == self._task_queue
        )

    async def _cancel(self, described: DescribeWorkflowExecutionResponse, step: PendingActivityInfo) -> None:
        """Report a dead worker's step as cancelled, as its workflow requested; the workflow then decides again at once.

        If the step failed instead, the workflow would back off before it takes the step again. The next listing shows
        the step's effects.
        """
        execution = described.workflow_execution_info.execution
        try:
            await self._client.workflow_service.respond_activity_task_canceled_by_id(
                RespondActivityTaskCanceledByIdRequest(
                    namespace=self._client.namespace,
                    workflow_id=execution.workflow_id,
                    run_id=execution.run_id,
                    activity_id=step.activity_id,
                    identity=self._identity,
                ),
                retry=True,
                timeout=_RPC,
            )
        except RPCError as error:
            _unless_ended(error)

    async def _fail(self, described: DescribeWorkflowExecutionResponse, step: PendingActivityInfo) -> None:
        """Fail a step of a dead worker so that Temporal retries it now."""
        execution = described.workflow_execution_info.execution
        again = ApplicationFailureInfo(type="WorkerGone")
        again.next_retry_delay.FromMilliseconds(1)
        failure = Failure(
            message=f"the worker that ran it, {step.last_worker_identity}, is gone",
            source="syncpod",
            application_failure_info=again,
        )
        try:
            await self._client.workflow_service.respond_activity_task_failed_by_id(
                RespondActivityTaskFailedByIdRequest(
                    namespace=self._client.namespace,
                    workflow_id=execution.workflow_id,
                    run_id=execution.run_id,
                    activity_id=step.activity_id,
                    failure=failure,
                    identity=self._identity,
                ),
                retry=True,
                timeout=_RPC,
            )
        except RPCError as error:
            _unless_ended(error)


def _unless_ended(error: RPCError) -> None:
    """Raise the error, except if it means that the step has timed out or ended: then nothing is left to do."""
    if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
        raise error


def _ref(listed: ListedWorkflow) -> PodRef | None:
    """Return the pod in a listed workflow's search attributes; None if they have no UID."""
    said = {pair.key.name: str(pair.value) for pair in listed.typed_search_attributes}
    if not said.get("PodUID"):
        return None
    return PodRef(namespace=said.get("PodNamespace", ""), name=said.get("PodName", ""), uid=said["PodUID"])


def _named(answer: object) -> PodRef | None:
    """Return a reference to the Pod that a query returned; None if `answer` is not a Pod with all its names."""
    meta = answer.get("metadata") if isinstance(answer, dict) else None
    named = [meta.get(field) for field in ("namespace", "name", "uid")] if isinstance(meta, dict) else []
    if not named or not all(isinstance(each, str) and each for each in named):
        return None
    namespace, name, uid = named
    return PodRef(namespace=namespace, name=name, uid=uid)


def _agreed(said: PodRef | None, here: list[PodRef]) -> PodRef | None:
    """Return a workflow's pod if its search attributes and the runtime's pods of its name agree, else None.

    If one side has no pod, the other decides.
    """
    if said is None:
        return here[0] if len(here) == 1 else None
    return said if not here or said.uid in {ref.uid for ref in here} else None
