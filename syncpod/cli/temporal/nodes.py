"""Reading nodes: the state that their workflows keep, and whether their workers are alive.

Whether a worker is alive is known from the server (the SDK's worker heartbeats), never from a workflow's memory.
Mirrors pkg/controller/nodelifecycle, v1.36: a node that has not been heard from for 40 s is not ready, and its
conditions are Unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from temporalio.api.enums.v1 import WorkerStatus
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, ListWorkersRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.failure import Failure
from syncpod.cli.readings import NodeReading
from syncpod.cli.temporal.pod_reads import QUERY_DEADLINE
from syncpod.messages import node_task_queue
from syncpod.messages.node import (
    NODE_MEMO,
    NODE_WORKFLOW,
    NodeSummary,
    NodeView,
    node_workflow_id,
)
from syncpod.temporal.pod_start import ENDED

GRACE: Final = timedelta(seconds=40)
"""The node lifecycle controller's nodeMonitorGracePeriod; a worker's heartbeats are 10 s apart."""
_POLLED_WITHIN: Final = timedelta(seconds=70)
"""A poll lasts a minute. It shows that a worker is alive before its first heartbeat, and on a server without heartbeats
(before 1.30)."""
_RPC: Final = timedelta(seconds=5)


async def list_nodes(client: Client) -> list[NodeReading]:
    """Return all nodes that have a workflow, in order of name."""
    query = f"WorkflowType = '{NODE_WORKFLOW}' AND ExecutionStatus = 'Running'"
    found = [execution async for execution in client.list_workflows(query, rpc_timeout=_RPC)]
    heard = await _signs(client)
    readings = await asyncio.gather(*(_read(client, execution, heard) for execution in found))
    return sorted(readings, key=lambda reading: reading.name)


async def read_node(client: Client, name: str) -> NodeReading | None:
    """Return one node; None where it has no workflow."""
    handle = client.get_workflow_handle(node_workflow_id(name))
    try:
        described = await handle.describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise
    if described.status in ENDED:
        return None
    return await _read(client, described, await _signs(client))


async def require_node(client: Client, name: str) -> NodeReading:
    """Return one node. Raises Failure where there is none."""
    reading = await read_node(client, name)
    if reading is None:
        raise Failure(f'nodes "{name}" not found (a node appears when its worker first runs)')
    return reading


async def is_cordoned(client: Client, name: str) -> bool:
    """Return whether a node is cordoned, by its memo, also while it is away. One without a workflow is not."""
    try:
        described = await client.get_workflow_handle(node_workflow_id(name)).describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return False
        raise
    return described.status not in ENDED and (await _summary(described)).unschedulable


async def labels_of_node(client: Client, name: str) -> Mapping[str, str]:
    """Return a node's labels, by its memo, also while it is away; none where it has not told them yet."""
    try:
        described = await client.get_workflow_handle(node_workflow_id(name)).describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return {}
        raise
    return {} if described.status in ENDED else (await _summary(described)).labels


async def is_silent(client: Client, name: str) -> bool:
    """Return whether a node's workflow does not answer in time; False if it has no workflow."""
    try:
        await client.get_workflow_handle(node_workflow_id(name)).query(
            "node", reject_condition=QueryRejectCondition.NOT_OPEN, rpc_timeout=QUERY_DEADLINE
        )
    except (WorkflowQueryFailedError, WorkflowQueryRejectedError):
        return False
    except RPCError as error:
        return error.status != RPCStatusCode.NOT_FOUND
    return False


@dataclass(frozen=True)
class _Signs:
    """What the server has heard from workers."""

    beats: Mapping[str, datetime]
    """By task queue: the last heartbeat of a worker that has not shut down."""
    identities: frozenset[str]
    """Identities of all workers whose heartbeats the server keeps."""


async def _read(client: Client, execution: WorkflowExecution, signs: _Signs) -> NodeReading:
    summary = await _summary(execution)
    name = summary.name or execution.id.removeprefix("node/")
    at, grace = signs.beats.get(node_task_queue(name)), GRACE
    if not _is_recent(at, grace) and (polled := await _polled(client, name, signs)) is not None:
        at, grace = polled, _POLLED_WITHIN
    lives = _is_recent(at, grace)
    view = await _ask(client, execution.id) if lives else None
    if view is not None:
        return NodeReading(name, view, current=True, heard=at, lives=True)
    known = NodeView(
        name=name,
        since=summary.since or execution.start_time,
        unschedulable=summary.unschedulable,
        labels=summary.labels,
        addresses=summary.addresses,
        node_info=summary.node_info,
    )
    return NodeReading(name, known, current=False, heard=at, lives=False)


def _is_recent(at: datetime | None, grace: timedelta) -> bool:
    return at is not None and datetime.now(UTC) - at < grace


async def _ask(client: Client, workflow_id: str) -> NodeView | None:
    """Return the workflow's answer; None if there is none in time."""
    try:
        answer: dict[str, Any] = await client.get_workflow_handle(workflow_id).query(
            "node", reject_condition=QueryRejectCondition.NOT_OPEN, result_type=dict, rpc_timeout=QUERY_DEADLINE
        )
    except (WorkflowQueryFailedError, WorkflowQueryRejectedError, RPCError):
        return None
    return NodeView.model_validate(answer)


async def _summary(execution: WorkflowExecution) -> NodeSummary:
    """Return the node's summary from the workflow's memo."""
    return NodeSummary.model_validate((await execution.memo()).get(NODE_MEMO) or {})


async def _signs(client: Client) -> _Signs:
    """Return what the server has heard from all workers; nothing if it keeps no heartbeats."""
    beats: dict[str, datetime] = {}
    identities: set[str] = set()
    token = b""
    while True:
        request = ListWorkersRequest(namespace=client.namespace, next_page_token=token, page_size=100)
        try:
            listed = await client.workflow_service.list_workers(request, retry=True, timeout=_RPC)
        except RPCError as error:
            if error.status == RPCStatusCode.UNIMPLEMENTED:
                return _Signs({}, frozenset())
            raise
        for info in listed.workers_info:
            beat = info.worker_heartbeat
            identities.add(beat.worker_identity)
            at = beat.heartbeat_time.ToDatetime(UTC)
            if beat.status == WorkerStatus.WORKER_STATUS_RUNNING and at > beats.get(beat.task_queue, _NEVER):
                beats[beat.task_queue] = at
        token = listed.next_page_token
        if not token:
            return _Signs(beats, frozenset(identities))


_NEVER: Final = datetime.fromtimestamp(0, UTC)


async def _polled(client: Client, name: str, signs: _Signs) -> datetime | None:
    """Return when a worker without a heartbeat, or without one yet, last polled the node's task queue."""
    request = DescribeTaskQueueRequest(namespace=client.namespace)
    request.task_queue.name = node_task_queue(name)
    described = await client.workflow_service.describe_task_queue(request, retry=True, timeout=_RPC)
    pollers = [poller for poller in described.pollers if poller.identity not in signs.identities]
    return max((poller.last_access_time.ToDatetime(UTC) for poller in pollers), default=None)
