"""The steps of a node's workflow: ``apply_pod`` and ``delete_pod``, and each for several pods at once.

They tell pods' workflows what the node wishes.

Unlike other steps they touch no runtime. Each may run twice: applying what a workflow already has changes nothing, and
a pod that has ended is not ended again. A workflow's refusal is a result, since another try would be refused as well.
Everything else, including an update that the server has failed, fails the step, and Temporal tries it again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Final

from temporalio import activity
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
from syncpod.messages.node import (
    ApplyPodWorkflow,
    ApplyPodWorkflows,
    DeletePodWorkflow,
    DeletePodWorkflows,
    NodeStepName,
    PodWorkflowResult,
    PodWorkflowResults,
)
from syncpod.node.pod_records import PodRecord
from syncpod.pod import Pod, PodInvalid, admit_pod, pod_to_wire
from syncpod.temporal.early_ends import EarlyEnds
from syncpod.temporal.pod_start import ENDED, begin_pod, look_at, start_operation

_ANSWER_SECONDS: Final = 15.0
"""How long a workflow may take to answer: less than the step itself may take."""
_TOGETHER_SECONDS: Final = 5.0
"""The same where others are asked with it, whose answers wait for the last one."""
_RPC: Final = timedelta(seconds=5)
STARTS_AT_ONCE: Final = 16
"""How many pods' workflows are started at the same time. For so many first tasks the worker keeps room, so that they
come with the answer to the start; any other comes by its queue, which costs the server a commit and often a write more.
A place is taken until its task is done, which is long after the start: with four places, one task in six came so."""

Deleted = Callable[[str, datetime], None]
"""Is told that the node itself has a pod deleted: by which workflow, and since when, by that workflow's history."""

Recorded = Callable[[Pod], Awaitable[PodRecord | None]]
"""Returns what the node knows of a pod's life so far, if anything. Raises CriError, OSError: the step is repeated."""


async def nothing_recorded(pod: Pod) -> PodRecord | None:
    """Return no record, for a node that keeps none."""
    return None


def nobody(_workflow_id: str, _since: datetime) -> None:
    """Tell nobody of a deletion, for a node that keeps no journal."""


class PodWorkflowSteps:
    """The steps of one node's workflow, as Temporal calls them."""

    def __init__(
        self,
        client: Client,
        facts: Callable[[], NodeFacts],
        recorded: Recorded = nothing_recorded,
        deleted: Deleted = nobody,
        early: EarlyEnds | None = None,
    ) -> None:
        """Use `client`; `facts` says whether the server has our search attributes, `recorded` which pods ran here.

        `deleted` is told of each deletion that begins with a step of ours; `early` has those that began before it.
        """
        self._client = client
        self._facts = facts
        self._recorded = recorded
        self._deleted = deleted
        self._early = early
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)

    @activity.defn(name=NodeStepName.APPLY_POD.value)
    async def apply_pod(self, request: ApplyPodWorkflow) -> PodWorkflowResult:
        """Hand a pod to its workflow. The pod that it replaces ends first, and this one follows as its successor.

        If there is no workflow, but the node has a record of this very pod, or its runtime has the pod, it is adopted:
        its containers run on, and those that have finished do not run again. A static pod has the same UID on a new
        Temporal server, and after its node's state directory was lost.

        The whole document is checked before any pod is ended for it. Raises ApplicationError, retryable, while the
        workflow does not answer.
        """
        return await self._told(request, _ANSWER_SECONDS)

    @activity.defn(name=NodeStepName.APPLY_PODS.value)
    async def apply_pods(self, request: ApplyPodWorkflows) -> PodWorkflowResults:
        """Hand several pods to their workflows, concurrently, as `apply_pod` does with each.

        One step for many pods spares the server two commits for each of them. A pod for which it fails, or whose
        workflow takes long, fails no other: it has no result, and the node then tells it alone.
        """
        results = await asyncio.gather(
            *(_or_none(_name_in(each), self._told(each, _TOGETHER_SECONDS)) for each in request.pods)
        )
        return PodWorkflowResults(results=tuple(results))

    async def _told(self, request: ApplyPodWorkflow, seconds: float) -> PodWorkflowResult:
        try:
            pod = admit_pod(request.pod)
        except PodInvalid as wrong:
            return PodWorkflowResult(refused=str(wrong))
        if pod.spec.node_name not in ("", request.node):
            return PodWorkflowResult(refused=f"spec.nodeName: is {pod.spec.node_name}, this is {request.node}")
        async with _in_time(pod.metadata.namespace, pod.metadata.name, seconds):
            if self._early is not None:
                await self._early.settle(pod_workflow_id(pod.metadata.namespace, pod.metadata.name))
            if request.existing_only and not await self._is_open(pod):
                return PodWorkflowResult(
                    refused=f"node {request.node} is cordoned: it takes no new pod until `syncpod uncordon`",
                    cordoned=True,
                )
            if request.unless_there and await self._stays(pod):
                return PodWorkflowResult(uid=pod.metadata.uid, there=True)
            for uid in request.replaces:
                await self._end(pod.metadata.namespace, pod.metadata.name, {"uid": uid})
            return await self._apply(pod, request.node)

    @activity.defn(name=NodeStepName.DELETE_POD.value)
    async def delete_pod(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        """Have a pod's workflow end it. A pod that does not exist, or has another UID, is left alone.

        With several UIDs the newest comes first: if it was to follow another pod, it no longer does.
        """
        return await self._delete(request, _ANSWER_SECONDS)

    @activity.defn(name=NodeStepName.DELETE_PODS.value)
    async def delete_pods(self, request: DeletePodWorkflows) -> PodWorkflowResults:
        """Have several pods' workflows end them, concurrently, as `delete_pod` does with each.

        One step for many pods spares the server two commits for each of them. A pod for which it fails, or whose
        workflow takes long, fails no other: it has no result, and the node then tells it alone.
        """
        results = await asyncio.gather(
            *(_or_none(f"{each.namespace}/{each.name}", self._delete(each, _TOGETHER_SECONDS)) for each in request.pods)
        )
        return PodWorkflowResults(results=tuple(results))

    async def _delete(self, request: DeletePodWorkflow, seconds: float) -> PodWorkflowResult:
        grace = request.grace_period_seconds
        payload: dict[str, Any] = {} if grace is None else {"gracePeriodSeconds": grace}
        meant: list[dict[str, Any]] = [{"uid": uid} for uid in reversed(request.uids)] or [{}]
        async with _in_time(request.namespace, request.name, seconds):
            results = [await self._end(request.namespace, request.name, {**payload, **each}) for each in meant]
        return next((result for result in results if not result.refused), results[-1])

    async def _apply(self, pod: Pod, node: str) -> PodWorkflowResult:
        record = await self._recorded(pod)
        if record is None and pod.metadata.uid and await self._begin(pod, node):
            return PodWorkflowResult(uid=pod.metadata.uid)
        start = start_operation(
            pod,
            node,
            has_attributes=self._facts().search_attributes,
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
        """Start the workflow of a pod that has none (`begin_pod`); `apply_pod` has refused what it would refuse."""
        async with self._starts:
            return await begin_pod(self._client, pod, node, has_attributes=self._facts().search_attributes)

    async def _end(self, namespace: str, name: str, payload: dict[str, Any]) -> PodWorkflowResult:
        handle = self._handle(namespace, name)
        try:
            answer = await self._answered_early(handle.id, payload)
            if answer is None:
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

    async def _answered_early(self, id_: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to the same deletion that the agent has begun; None if it has not, or got none."""
        if self._early is None or payload.keys() != {"uid"}:
            return None
        return await self._early.answer(id_, payload["uid"])

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


async def _or_none(pod: str, telling: Awaitable[PodWorkflowResult]) -> PodWorkflowResult | None:
    """Return what the workflow of one pod among several has answered; None for any failure."""
    try:
        return await telling
    except (ApplicationError, RPCError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        activity.logger.warning("%s is told alone: %s", pod, error)
    except Exception as error:  # noqa: BLE001  # the step for this pod alone reports it
        activity.logger.warning("%s is told alone: %s", pod, type(error).__name__)  # its text may have the pod's spec
    return None


def _name_in(request: ApplyPodWorkflow) -> str:
    """Return the name of the pod in a document that may be invalid."""
    metadata = request.pod.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    return f"{known.get('namespace')}/{known.get('name')}"


@contextlib.asynccontextmanager
async def _in_time(namespace: str, name: str, seconds: float) -> AsyncIterator[None]:
    """Raise ApplicationError, retryable, where a pod's workflow takes too long to answer.

    The SDK turns a cancelled update, and so this time limit, into an error of its own.
    """
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
