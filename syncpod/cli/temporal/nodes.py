"""Reading nodes: the state that their workflows keep, and whether their workers are alive.

Whether a worker is alive is known from its signs of life (:mod:`syncpod.cli.temporal.liveness`), never from a
workflow's memory. Mirrors pkg/controller/nodelifecycle, v1.36: a dead worker's node has Unknown conditions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.failure import Failure
from syncpod.cli.fetched import FetchedNode
from syncpod.cli.temporal.liveness import Life, lives_of
from syncpod.messages.node import NODE_MEMO, NODE_WORKFLOW, NodeSummary, NodeView, node_workflow_id
from syncpod.temporal.pod_start import ENDED

_ANSWER: Final = timedelta(seconds=10)
"""How long a live worker has for its node's answer: it may have much to do."""
_RPC: Final = timedelta(seconds=5)


async def list_nodes(client: Client) -> list[FetchedNode]:
    """Return all nodes that have a workflow, in order of name."""
    # Anybody can start a workflow of this type under any id.
    query = f"WorkflowType = '{NODE_WORKFLOW}' AND WorkflowId STARTS_WITH 'node/' AND ExecutionStatus = 'Running'"
    found = [execution async for execution in client.list_workflows(query, rpc_timeout=_RPC)]
    lives = await lives_of(client, map(_name, found))
    fetched_nodes = await asyncio.gather(*(_read(client, execution, lives[_name(execution)]) for execution in found))
    return sorted(fetched_nodes, key=lambda fetched: fetched.name)


async def read_node(client: Client, name: str) -> FetchedNode | None:
    """Return one node; None if it has no workflow."""
    handle = client.get_workflow_handle(node_workflow_id(name))
    try:
        described = await handle.describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise
    if described.status in ENDED or described.workflow_type != NODE_WORKFLOW:
        return None
    return await _read(client, described, (await lives_of(client, (name,)))[name])


async def require_node(client: Client, name: str) -> FetchedNode:
    """Return one node. Raises Failure if it does not exist."""
    fetched = await read_node(client, name)
    if fetched is None:
        raise Failure(f'nodes "{name}" not found (a node appears when its worker first runs)')
    return fetched


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
    """Return a node's labels, from its memo, also while it is away; empty if it has not reported them yet."""
    try:
        described = await client.get_workflow_handle(node_workflow_id(name)).describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return {}
        raise
    return {} if described.status in ENDED else (await _summary(described)).labels


def _name(execution: WorkflowExecution) -> str:
    return execution.id.removeprefix("node/")


async def _read(client: Client, execution: WorkflowExecution, life: Life) -> FetchedNode:
    summary, name = await _summary(execution), _name(execution)
    view = await _ask(client, execution.id) if life.lives else None
    if view is not None:
        return FetchedNode(name, view, current=True, heard=life.heard, lives=True)
    known = NodeView(
        name=name,
        since=summary.since or execution.start_time,
        unschedulable=summary.unschedulable,
        labels=summary.labels,
        addresses=summary.addresses,
        node_info=summary.node_info,
    )
    return FetchedNode(name, known, current=False, heard=life.heard, lives=life.lives)


async def _ask(client: Client, workflow_id: str) -> NodeView | None:
    """Return the workflow's answer; None if there is none in time."""
    try:
        answer: dict[str, Any] = await client.get_workflow_handle(workflow_id).query(
            "node", reject_condition=QueryRejectCondition.NOT_OPEN, result_type=dict, rpc_timeout=_ANSWER
        )
    except (WorkflowQueryFailedError, WorkflowQueryRejectedError, RPCError):
        return None
    return NodeView.model_validate(answer)


async def _summary(execution: WorkflowExecution) -> NodeSummary:
    """Return the node's summary from the workflow's memo."""
    return NodeSummary.model_validate((await execution.memo()).get(NODE_MEMO) or {})
