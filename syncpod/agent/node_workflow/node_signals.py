"""Sends the agent's signals to the node's workflow, and starts the workflow if it does not run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client, WorkflowQueryRejectedError
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from syncpod.messages.identity import Message, node_task_queue
from syncpod.messages.node import (
    NODE_WORKFLOW,
    NodeStatus,
    NodeView,
    RecallPods,
    StaticPods,
    SyncPods,
    node_workflow_id,
)
from syncpod.temporal.run_history import how_ended
from syncpod.temporal.workflow_starts import ENDED, node_start_arguments

_RPC: Final = timedelta(seconds=5)


class NodeSignals:
    """Sends signals. Each method raises RPCError if the server did not accept it; the caller retries."""

    def __init__(
        self,
        client: Client,
        node: str,
        require: Callable[[], Awaitable[None]],
        has_attributes: Callable[[], bool],
        recorded: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """Signal the workflow of `node`. `require` raises RPCError if the server is not the node's.

        `has_attributes` returns whether the namespace has our search attributes. `recorded` returns input from the
        node's records for a workflow that replaces an ended one; it may block.
        """
        self._recorded = recorded
        self._has_attributes = has_attributes
        self._client = client
        self._node = node
        self._require = require

    async def sync_pods(self, pods: SyncPods) -> None:
        """Send the full list of one source."""
        await self._send("sync_pods", pods)

    async def static_pods(self, pods: StaticPods) -> None:
        """Send the report on the pods of the directory of manifests."""
        await self._send("static_pods", pods)

    async def node_status(self, status: NodeStatus) -> None:
        """Send the node's status."""
        await self._send("node_status", status)

    async def recall_pods(self, pods: RecallPods) -> None:
        """Send the pods that earlier workflows have started for lists: a new workflow has no record of them."""
        await self._send("recall_pods", pods)

    async def view(self) -> NodeView | None:
        """Return the state of the node's workflow, by a query; None if it does not run.

        Raises RPCError while the query is not answered, WorkflowQueryFailedError and ValueError for an invalid answer.
        """
        handle = self._client.get_workflow_handle(node_workflow_id(self._node))
        try:
            answer = await handle.query(
                "node", result_type=dict, reject_condition=QueryRejectCondition.NOT_OPEN, rpc_timeout=_RPC
            )
        except WorkflowQueryRejectedError:
            return None
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
            raise
        return NodeView.model_validate(answer)

    async def end_another(self) -> str:
        """Terminate another workflow that has the id of the node's workflow; return its type and queue, "" = none.

        The server would deliver the node's signals to that workflow, which ignores them. Raises RPCError.
        """
        await self._require()
        handle, ours = self._client.get_workflow_handle(node_workflow_id(self._node)), node_task_queue(self._node)
        try:
            described = await handle.describe(rpc_timeout=_RPC)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return ""
            raise
        kind, queue = described.workflow_type, described.task_queue or ""
        if described.status in ENDED or (kind, queue) == (NODE_WORKFLOW, ours):
            return ""
        run = self._client.get_workflow_handle(handle.id, run_id=described.run_id)
        await run.terminate(reason="its id is that of the node's workflow", rpc_timeout=_RPC)
        return f"a workflow {kind} on task queue {queue}"

    async def _send(self, name: str, payload: Message) -> None:
        await self._require()
        handle = self._client.get_workflow_handle(node_workflow_id(self._node))
        try:
            await handle.signal(name, payload, rpc_timeout=_RPC)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
        else:
            return
        ended = await how_ended(self._client, handle.id, timeout=_RPC)
        before = {} if ended is None else {"ended": ended.sentence, **await asyncio.to_thread(self._recorded)}
        await self._client.start_workflow(
            NODE_WORKFLOW,
            {"node": self._node, **before},
            start_signal=name,
            start_signal_args=[payload],
            rpc_timeout=_RPC,
            **node_start_arguments(self._node, has_attributes=self._has_attributes()),
        )
