"""Orders to pods' workflows: to run a pod, to end it, and to add an ephemeral container.

Steps of the node's workflow send them for the lists of pods that it has, and the node's agent sends them for manifests,
for a Kubernetes cluster and at a shutdown. Each order may be sent twice: applying an unchanged pod changes nothing, and
a pod that has ended is not ended again. A workflow's refusal is a result, since a retry would be refused as well.
Everything else, including an update that the server has failed, raises an error, and the caller retries the order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.messages.identity import NodeFacts, pod_workflow_id
from syncpod.messages.node import ApplyPodWorkflow, DeletePodWorkflow, PodWorkflowResult
from syncpod.messages.pod_commands import DELETE
from syncpod.pod import Pod, PodInvalid, admit_pod, pod_to_wire
from syncpod.temporal.workflow_starts import ENDED, begin_pod, look_at, start_operation

ANSWER_SECONDS: Final = 15.0
"""How long a workflow may take to answer: less than the timeout of the node's step that sends the order."""
_RPC: Final = timedelta(seconds=5)
STARTS_AT_ONCE: Final = 16
"""How many pods' workflows are started at the same time. The worker reserves this many slots for eager starts, whose
first task comes with the answer to the start. Any other first task comes through the queue, which costs the server one
more commit and often one more write. A slot is taken until its task is done, long after the start: with four slots, one
first task in six came through the queue."""

OwnCommand = Callable[[str, str, datetime], None]
"""Called for each command of the node itself that a pod has obeyed, with the id of the pod's workflow, the command, and
the time of its line in that workflow's history."""


class PodSoFar(Protocol):
    """The node's record of a pod's life so far. Implemented by `syncpod.node.pod_records.PodRecord`."""

    @property
    def pod(self) -> Pod:
        """The pod as it was recorded."""

    @property
    def incarnation(self) -> str:
        """The id of this life of the pod."""


Recorded = Callable[[Pod], Awaitable[PodSoFar | None]]
"""Returns the node's record of a pod's life so far; None if it has none. Raises CriError, OSError: the order is
retried."""


Require = Callable[[], Awaitable[None]]
"""Raises RPCError if the server is not the node's."""


async def of_the_node() -> None:
    """Check nothing: an order that a step sends comes from the node's own server."""


async def nothing_recorded(pod: Pod) -> PodSoFar | None:
    """Return no record, for a node that keeps none."""
    return None


def nobody(_workflow_id: str, _command: str, _at: datetime) -> None:
    """Ignore a command, for a node that keeps no journal."""


class PodOrders:
    """Sends the orders of one node to the workflows of its pods."""

    def __init__(
        self,
        client: Client,
        facts: Callable[[], NodeFacts],
        recorded: Recorded = nothing_recorded,
        own_command: OwnCommand = nobody,
    ) -> None:
        """`facts` returns whether the server has our search attributes, and `recorded` the node's record of a pod.

        `own_command` is called with each deletion that an order from here has begun.
        """
        self._client = client
        self._facts = facts
        self._recorded = recorded
        self._own_command = own_command
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)

    async def apply(
        self, request: ApplyPodWorkflow, seconds: float | None = None, *, require: Require = of_the_node
    ) -> PodWorkflowResult:
        """Start a pod's workflow, or update it. If the pod replaces another of its name, the replaced pod ends first.

        If there is no workflow, but the node has a record of this pod, or its runtime has the pod, the pod is adopted:
        its containers run on, and those that have finished do not run again. So a static pod, whose UID stays the same,
        goes on under a new Temporal server, and after its node has lost its state directory.

        The whole document is checked before any pod is ended for it. Awaits `require` before it changes anything, and
        changes nothing if that raises. Raises ApplicationError, retryable, if the workflow does not answer within
        `seconds` (None = :data:`ANSWER_SECONDS`); RPCError, and the errors of `require` and `recorded`.
        """
        try:
            pod = admit_pod(request.pod)
        except PodInvalid as wrong:
            return PodWorkflowResult(refused=str(wrong))
        if pod.spec.node_name not in ("", request.node):
            return PodWorkflowResult(refused=f"spec.nodeName: is {pod.spec.node_name}, this is {request.node}")
        async with _in_time(pod.metadata.namespace, pod.metadata.name, seconds):
            if request.existing_only and not await self._is_open(pod):
                return PodWorkflowResult(
                    refused=f"node {request.node} is cordoned: it takes no new pod until `syncpod uncordon`",
                    cordoned=True,
                )
            if request.unless_there and await self._stays(pod):
                return PodWorkflowResult(uid=pod.metadata.uid, there=True)
            for uid in request.replaces:
                await require()
                await self._end(pod.metadata.namespace, pod.metadata.name, {"uid": uid})
            return await self._apply(pod, request.node, require)

    async def end(self, request: DeletePodWorkflow, seconds: float | None = None) -> PodWorkflowResult:
        """Order a pod's workflow to end the pod. A pod that does not exist, or has another UID, is left alone.

        With several UIDs, the newest pod is ended first, so that it does not follow an older one. Raises as `apply`.
        """
        grace = request.grace_period_seconds
        payload: dict[str, Any] = {} if grace is None else {"gracePeriodSeconds": grace}
        meant: list[dict[str, Any]] = [{"uid": uid} for uid in reversed(request.uids)] or [{}]
        async with _in_time(request.namespace, request.name, seconds):
            results = [await self._end(request.namespace, request.name, {**payload, **each}) for each in meant]
        return next((result for result in results if not result.refused), results[-1])

    async def join(self, namespace: str, name: str, container: Mapping[str, Any]) -> PodWorkflowResult:
        """Add an ephemeral container, given as a document, to a pod. Changes nothing if the pod has one of that name.

        Raises as `apply`.
        """
        async with _in_time(namespace, name, None):
            try:
                answer = await self._handle(namespace, name).execute_update(
                    "add_ephemeral_container", dict(container), result_type=dict, rpc_timeout=None
                )
            except WorkflowUpdateFailedError as error:
                return _refusal(error)
        return PodWorkflowResult(uid=str(answer.get("uid", "")))

    async def _apply(self, pod: Pod, node: str, require: Require) -> PodWorkflowResult:
        _, record = await asyncio.gather(require(), self._recorded(pod))  # neither need wait for the other
        if record is not None and (owner := _name_of(record.pod)) != _name_of(pod):
            return PodWorkflowResult(
                refused=f"metadata.uid: {pod.metadata.uid} belongs to pod {owner} on this node until that pod has ended"
            )
        if record is None and pod.metadata.uid and await self._begin(pod, node):
            return PodWorkflowResult(uid=pod.metadata.uid)
        start = start_operation(
            pod,
            node,
            has_attributes=self._facts().search_attributes,
            sender=self._client.identity,
            recorded=record.pod if record is not None else None,
            incarnation=record.incarnation if record is not None else "",
        )
        try:
            answer = await self._client.execute_update_with_start_workflow(
                "apply", pod_to_wire(pod), result_type=dict, start_workflow_operation=start
            )
        except WorkflowUpdateFailedError as error:
            return _refusal(error)
        finally:
            await look_at(start)
        return PodWorkflowResult(uid=str(answer.get("uid", "")) or pod.metadata.uid)

    async def _begin(self, pod: Pod, node: str) -> bool:
        """Start the workflow of a pod that has none (`begin_pod`); `apply` has made all checks before."""
        async with self._starts:
            return await begin_pod(self._client, pod, node, has_attributes=self._facts().search_attributes)

    async def _end(self, namespace: str, name: str, payload: dict[str, Any]) -> PodWorkflowResult:
        handle = self._handle(namespace, name)
        try:
            answer = await handle.execute_update(DELETE.name, payload, result_type=dict, rpc_timeout=None)
        except WorkflowUpdateFailedError as error:
            if isinstance(error.cause, ApplicationError) and error.cause.type == "Gone":
                return PodWorkflowResult(absent=True)
            return _refusal(error)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return PodWorkflowResult(absent=True)
            raise
        with contextlib.suppress(KeyError, TypeError, ValueError):
            self._own_command(handle.id, DELETE.name, datetime.fromisoformat(answer["since"]))
        return PodWorkflowResult(uid=str(answer.get("uid", "")))

    async def _is_open(self, pod: Pod) -> bool:
        """Say whether a pod's workflow goes on: it runs, is paused, or has another status that is not an end."""
        request = DescribeWorkflowExecutionRequest(
            namespace=self._client.namespace,
            execution=WorkflowExecution(workflow_id=pod_workflow_id(pod.metadata.namespace, pod.metadata.name)),
        )
        try:
            found = await self._client.workflow_service.describe_workflow_execution(request, retry=True, timeout=_RPC)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return False
            raise
        return found.workflow_execution_info.status not in ENDED

    async def _stays(self, pod: Pod) -> bool:
        """Say whether a pod's workflow has the pod and is not ending it; False if the workflow does not answer."""
        handle = self._handle(pod.metadata.namespace, pod.metadata.name)
        try:
            found: dict[str, Any] = await handle.query(
                "pod", result_type=dict, reject_condition=QueryRejectCondition.NOT_OPEN, rpc_timeout=_RPC
            )
        except (WorkflowQueryRejectedError, WorkflowQueryFailedError):
            return False
        except ValueError:  # a paused workflow: it does not answer, and the SDK cannot read its status
            return False
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return False
            raise
        metadata = found.get("metadata", {})
        return metadata.get("uid") == pod.metadata.uid and not metadata.get("deletionTimestamp")

    def _handle(self, namespace: str, name: str) -> WorkflowHandle[Any, Any]:
        return self._client.get_workflow_handle(pod_workflow_id(namespace, name))


def _name_of(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


@contextlib.asynccontextmanager
async def _in_time(namespace: str, name: str, most: float | None) -> AsyncIterator[None]:
    """Raise ApplicationError, retryable, if a pod's workflow takes too long to answer.

    The SDK turns a cancelled update, and so this time limit, into an error of its own.
    """
    seconds = ANSWER_SECONDS if most is None else most
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
        if not limit.expired():
            raise
        workflow_id = pod_workflow_id(namespace, name)
        raise ApplicationError(
            f"the workflow {workflow_id} has not answered within {seconds:.0f} s", type="NoAnswer"
        ) from None


def _refusal(error: WorkflowUpdateFailedError) -> PodWorkflowResult:
    """Return the refusal of a workflow, of type Invalid.

    Raises a retryable ApplicationError for any other error: of type Gone if the pod has just ended, else of the error's
    own type, such as the server's error for a workflow that was terminated during an update.
    """
    cause = error.cause
    kind = cause.type if isinstance(cause, ApplicationError) else None
    if kind == "Gone":
        raise ApplicationError("the pod has just ended; it is applied again", type="Gone") from None
    message = cause.message if isinstance(cause, ApplicationError) else str(cause)
    if kind != "Invalid":
        raise ApplicationError(message, type=kind or type(cause).__name__) from None
    return PodWorkflowResult(refused=message)
