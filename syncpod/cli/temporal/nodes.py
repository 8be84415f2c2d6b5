"""Reads nodes: the state that their workflows keep, and whether their workers are alive.

Whether a worker is alive is known from its signs of life (:mod:`syncpod.cli.temporal.liveness`), never from a
workflow's memory. Mirrors pkg/controller/nodelifecycle, v1.36: a dead worker's node has Unknown conditions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from pydantic import ValidationError
from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api import client as node_api
from syncpod.api.listed_node import ListedNode
from syncpod.cli.failure import Failure
from syncpod.cli.machine.own_journal import last_sign
from syncpod.cli.machine.settings import settings
from syncpod.cli.temporal.liveness import Liveness, lives, lives_of, own_worker
from syncpod.messages.node import NODE_MEMO, NODE_WORKFLOW, NodeSummary, NodeView, node_workflow_id
from syncpod.node.loop_stalls import LoopStall, read_loop_stall
from syncpod.node.recorded_events import recorded_status
from syncpod.settings.worker_record import read_worker_record
from syncpod.temporal.run_history import how_ended
from syncpod.temporal.workflow_starts import ENDED

_ANSWER: Final = timedelta(seconds=10)
"""How long to wait for the answer of a live worker, which may be busy."""
_RPC: Final = timedelta(seconds=5)
_BEGINS_AGAIN: Final = "its worker starts it again within half a minute"
_ENDED_AT_MOST: Final = 100
"""Maximum number of ended runs of nodes that are read: anybody can end any number of them."""
_UNREADABLE: Final = (ValidationError, KeyError, RuntimeError)
"""The exceptions of the SDK and pydantic for a memo or an answer that is not written by us: anybody can write one."""


async def list_nodes(client: Client) -> list[ListedNode]:
    """Return all nodes that have a workflow, in order of name."""
    # Anybody can start a workflow of this type under any id.
    query = f"WorkflowType = '{NODE_WORKFLOW}' AND WorkflowId STARTS_WITH 'node/' AND ExecutionStatus = 'Running'"
    found = [execution async for execution in client.list_workflows(query, rpc_timeout=_RPC)]
    lives = await lives_of(client, map(_name, found))
    fetched_nodes = await asyncio.gather(*(_read(client, execution, lives[_name(execution)]) for execution in found))
    return sorted(fetched_nodes, key=lambda fetched: fetched.name)


async def read_node(client: Client, name: str) -> ListedNode | None:
    """Return one node; None if it has no workflow."""
    described = await _open_workflow(client, name)
    return None if described is None else await _read(client, described, (await lives_of(client, (name,)))[name])


async def why_absent(client: Client, name: str) -> str:
    """Return a clause about why a node has no workflow, and how it gets one again; "" if it never had one."""
    if another := await _another_in_its_place(client, name):
        return another
    ended = await how_ended(client, node_workflow_id(name), timeout=_RPC)
    if ended is None:
        return ""
    if await lives(client, name):
        return f"{ended.sentence}; {_BEGINS_AGAIN}"
    return f"{ended.sentence}; no worker serves the node: `syncpod up` there starts both again"


async def notes_of_ended(client: Client, listed: Iterable[str]) -> list[str]:
    """Return a sentence for each node that is not listed: its workflow has ended, although its worker is alive."""
    states = ", ".join(f"'{state}'" for state in ("Terminated", "Failed", "Completed", "Canceled", "TimedOut"))
    query = f"WorkflowType = '{NODE_WORKFLOW}' AND WorkflowId STARTS_WITH 'node/' AND ExecutionStatus IN ({states})"
    found = {_name(each) async for each in client.list_workflows(query, limit=_ENDED_AT_MOST, rpc_timeout=_RPC)}
    alive = [name for name, life in (await lives_of(client, found - {*listed})).items() if life.lives]
    ends = [await how_ended(client, node_workflow_id(name), timeout=_RPC) for name in alive]
    return [
        f"node {name}: {end.sentence}; {_BEGINS_AGAIN}"
        for name, end in zip(alive, ends, strict=True)
        if end is not None
    ]


async def _another_in_its_place(client: Client, name: str) -> str:
    """Return a clause about a workflow that has a node's id and is not a node's; "" if there is none."""
    handle = client.get_workflow_handle(node_workflow_id(name))
    try:
        described = await handle.describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return ""
        raise
    if described.status in ENDED or _is_nodes(described):
        return ""
    kind, queue = described.workflow_type, described.task_queue
    return (
        f"workflow {handle.id} is not the node's, but a {kind} on task queue {queue}: the node's worker ends it within "
        f"a minute, and `temporal workflow terminate -w {handle.id}` at once"
    )


async def read_summary(client: Client, name: str) -> NodeSummary | None:
    """Return a node's summary; None = it has no workflow.

    The summary of this machine's node is the one that the node's workflow has last published to the worker. The summary
    of any other node comes from its workflow's memo, even if its worker is away, and is empty if the node has not
    reported anything yet.
    """
    if (worker := own_worker(client)) is not None and worker.node == name:
        known = await asyncio.to_thread(node_api.node, settings().state_dir, name)
        if known is not None:
            is_cordoned = known["spec"].get("unschedulable", False)
            return NodeSummary(name=name, unschedulable=is_cordoned, labels=known["metadata"]["labels"])
    described = await _open_workflow(client, name)
    return None if described is None else await _summary(described)


async def require_summary(client: Client, name: str) -> NodeSummary:
    """Return a node's summary from its workflow's memo. Raises Failure if it has no workflow to command."""
    described = await _open_workflow(client, name)
    if described is None:
        why = await why_absent(client, name)
        raise Failure(f'nodes "{name}" not found ({why or "a node appears when its worker first runs"})')
    return await _summary(described)


async def _open_workflow(client: Client, name: str) -> WorkflowExecution | None:
    """Return the description of a node's workflow; None if none of the right type is open."""
    try:
        described = await client.get_workflow_handle(node_workflow_id(name)).describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise
    return described if _is_nodes(described) else None


def _is_nodes(execution: WorkflowExecution) -> bool:
    """Return whether the workflow with a node's id is open and of the right type: anybody can start one there."""
    return execution.workflow_type == NODE_WORKFLOW and execution.status not in ENDED


def _name(execution: WorkflowExecution) -> str:
    return execution.id.removeprefix("node/")


async def _read(client: Client, execution: WorkflowExecution, life: Liveness) -> ListedNode:
    summary, name = await _summary(execution), _name(execution)
    view = await _ask(client, execution.id) if life.lives else None
    stall = await asyncio.to_thread(_stall_of, name)
    if view is not None:
        return ListedNode(name, view, current=True, heard=life.heard, lives=True, stall=stall)
    known = NodeView(
        name=name,
        since=summary.since or execution.start_time,
        unschedulable=summary.unschedulable,
        labels=summary.labels,
        addresses=summary.addresses,
        node_info=summary.node_info,
    )
    here = settings()
    told = await asyncio.to_thread(recorded_status, here.state_dir, execution.run_id)
    heard = life.heard
    if told and heard is None:  # the worker's process has ended on this machine
        heard = await asyncio.to_thread(last_sign, here)
    with suppress(ValidationError):  # a record of another version
        whole = NodeView.model_validate({**told, **known.model_dump(exclude_defaults=True, by_alias=True)})
        return ListedNode(name, whole, current=False, heard=heard, lives=life.lives, is_told=bool(told), stall=stall)
    return ListedNode(name, known, current=False, heard=heard, lives=life.lives, stall=stall)


def _stall_of(node: str) -> LoopStall | None:
    """Return the newest stall of a worker's event loop; None if there is none, or the node is not this machine's."""
    state_dir = settings().state_dir
    worker = read_worker_record(state_dir)
    return read_loop_stall(state_dir) if worker is not None and worker.node == node else None


async def _ask(client: Client, workflow_id: str) -> NodeView | None:
    """Return the workflow's answer; None if there is none in time."""
    try:
        answer: dict[str, Any] = await client.get_workflow_handle(workflow_id).query(
            "node", reject_condition=QueryRejectCondition.NOT_OPEN, result_type=dict, rpc_timeout=_ANSWER
        )
        return NodeView.model_validate(answer)
    except (WorkflowQueryFailedError, WorkflowQueryRejectedError, RPCError, *_UNREADABLE):
        return None


async def _summary(execution: WorkflowExecution) -> NodeSummary:
    """Return the node's summary from the workflow's memo; an empty one if that cannot be read."""
    try:
        return NodeSummary.model_validate((await execution.memo()).get(NODE_MEMO) or {})
    except _UNREADABLE:
        return NodeSummary()
