"""Orders to pods' workflows: to run a pod, and to end it.

Two give them: the node's workflow for its lists, by its steps, and the node's agent for its directory of manifests.
Each order may be given twice: applying what a workflow already has changes nothing, and a pod that has ended is not
ended again. A workflow's refusal is a result, since another try would be refused as well. Everything else, including an
update that the server has failed, is an error, and the order is to be given again.
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
from syncpod.pod import Pod, PodInvalid, admit_pod, pod_to_wire
from syncpod.temporal.workflow_starts import ENDED, begin_pod, look_at, start_operation

ANSWER_SECONDS: Final = 15.0
"""How long a workflow may take to answer: less than a step of the node may take."""
_RPC: Final = timedelta(seconds=5)
STARTS_AT_ONCE: Final = 16
"""How many pods' workflows are started at the same time. For so many first tasks the worker keeps room, so that they
come with the answer to the start; any other comes by its queue, which costs the server a commit and often a write more.
A place is taken until its task is done, which is long after the start: with four places, one task in six came so."""

Deleted = Callable[[str, datetime], None]
"""Is told that the node itself has a pod deleted: by which workflow, and since when, by that workflow's history."""


class PodSoFar(Protocol):
    """The node's knowledge of a pod's life so far: `syncpod.node.pod_records.PodRecord`."""

    @property
    def pod(self) -> Pod:
        """The pod as it was recorded."""

    @property
    def incarnation(self) -> str:
        """Which life of the pod it is."""


Recorded = Callable[[Pod], Awaitable[PodSoFar | None]]
"""Returns the node's knowledge of a pod's life so far, if there is any. Raises CriError, OSError: the order is
repeated."""


Require = Callable[[], Awaitable[None]]
"""Raises RPCError if the server is not the node's."""


async def of_the_node() -> None:
    """Require nothing: a step comes from the node's own server."""


async def nothing_recorded(pod: Pod) -> PodSoFar | None:
    """Return no record, for a node that keeps none."""
    return None


def nobody(_workflow_id: str, _since: datetime) -> None:
    """Tell nobody of a deletion, for a node that keeps no journal."""


class PodOrders:
    """Gives the orders of one node."""

    def __init__(
        self,
        client: Client,
        facts: Callable[[], NodeFacts],
        recorded: Recorded = nothing_recorded,
        deleted: Deleted = nobody,
    ) -> None:
        """Use `client`; `facts` says whether the server has our search attributes, `recorded` which pods ran here.

        `deleted` is called with each deletion that begins with an order from here.
        """
        self._client = client
        self._facts = facts
        self._recorded = recorded
        self._deleted = deleted
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)

    async def apply(
        self, request: ApplyPodWorkflow, seconds: float | None = None, *, require: Require = of_the_node
    ) -> PodWorkflowResult:
        """Hand a pod to its workflow. The pod that it replaces ends first, and this one follows as its successor.

        If there is no workflow, but the node has a record of this very pod, or its runtime has the pod, it is adopted:
        its containers run on, and those that have finished do not run again. A static pod has the same UID on a new
        Temporal server, and after its node's state directory was lost.

        The whole document is checked before any pod is ended for it, and nothing is sent before `require` has returned.
        Raises ApplicationError, retryable, if the workflow does not answer within `seconds` (None =
        :data:`ANSWER_SECONDS`); RPCError, and what `recorded` raises.
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
        """Have a pod's workflow end it. A pod that does not exist, or has another UID, is left alone.

        With several UIDs the newest comes first: if it was to follow another pod, it no longer does. Raises as `apply`.
        """
        grace = request.grace_period_seconds
        payload: dict[str, Any] = {} if grace is None else {"gracePeriodSeconds": grace}
        meant: list[dict[str, Any]] = [{"uid": uid} for uid in reversed(request.uids)] or [{}]
        async with _in_time(request.namespace, request.name, seconds):
            results = [await self._end(request.namespace, request.name, {**payload, **each}) for each in meant]
        return next((result for result in results if not result.refused), results[-1])

    async def join(self, namespace: str, name: str, container: Mapping[str, Any]) -> PodWorkflowResult:
        """Add an ephemeral container, a document, to a pod; it changes nothing if the pod has one of its name.

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
            answer = await handle.execute_update("delete", payload, result_type=dict, rpc_timeout=None)
        except WorkflowUpdateFailedError as error:
            if isinstance(error.cause, ApplicationError) and error.cause.type == "Gone":
                return PodWorkflowResult(absent=True)
            return _refusal(error)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return PodWorkflowResult(absent=True)
            raise
        with contextlib.suppress(KeyError, TypeError, ValueError):
            self._deleted(handle.id, datetime.fromisoformat(answer["since"]))
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
        """Say whether a pod's workflow has the pod and is not ending it; False too where the workflow cannot say."""
        handle = self._handle(pod.metadata.namespace, pod.metadata.name)
        try:
            found: dict[str, Any] = await handle.query(
                "pod", result_type=dict, reject_condition=QueryRejectCondition.NOT_OPEN, rpc_timeout=_RPC
            )
        except (WorkflowQueryRejectedError, WorkflowQueryFailedError):
            return False
        except ValueError:  # a paused workflow does not answer, and the SDK does not know its status
            return False
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return False
            raise
        metadata = found.get("metadata", {})
        return metadata.get("uid") == pod.metadata.uid and not metadata.get("deletionTimestamp")

    def _handle(self, namespace: str, name: str) -> WorkflowHandle[Any, Any]:
        return self._client.get_workflow_handle(pod_workflow_id(namespace, name))


@contextlib.asynccontextmanager
async def _in_time(namespace: str, name: str, most: float | None) -> AsyncIterator[None]:
    """Raise ApplicationError, retryable, where a pod's workflow takes too long to answer.

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

    Raises ApplicationError, retryable: of type Gone where the pod has just ended, and for errors that are not the
    workflow's, such as the server's when a workflow was terminated before it had carried out an update.
    """
    cause = error.cause
    kind = cause.type if isinstance(cause, ApplicationError) else None
    if kind == "Gone":
        raise ApplicationError("the pod has just ended; it is applied again", type="Gone") from None
    message = cause.message if isinstance(cause, ApplicationError) else str(cause)
    if kind != "Invalid":
        raise ApplicationError(message, type=kind or type(cause).__name__) from None
    return PodWorkflowResult(refused=message)
