"""The agent's signals to the node's workflow, which they start if it does not run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from temporalio.client import (
    Client,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from syncpod.messages.identity import Message
from syncpod.messages.node import NODE_WORKFLOW, NodeStatus, NodeView, RecallPods, SyncPods, node_workflow_id
from syncpod.temporal.node_start import node_start_arguments

_RPC: Final = timedelta(seconds=5)
_PROMPT_SECONDS: Final = 1.0
"""How long an update may take before a signal says the same: perhaps the workflow's worker does not poll yet."""


class NodeSignals:
    """Sends signals. Each method raises RPCError if the server did not accept it; the caller retries."""

    def __init__(self, client: Client, node: str, require: Callable[[], Awaitable[None]]) -> None:
        """Signal the workflow of `node`. `require` raises RPCError if the server is not the node's."""
        self._client = client
        self._node = node
        self._require = require
        self.number = 0
        """The number of the last list that was sent with one."""

    async def sync_pods(self, pods: SyncPods) -> None:
        """Send the full list of one source."""
        await self._send("sync_pods", pods)

    async def sync_pods_now(self, pods: SyncPods) -> None:
        """Send the full list of a source of this life of the agent, so that the workflow takes it as soon as it can.

        It is an update, for which the server writes nothing before the workflow has taken it; for a signal it writes
        twice. If that does not succeed at once, a signal says the same: it waits for the workflow, or starts it. The
        lists are numbered, so neither a copy does harm, nor an older list that comes late.
        """
        self.number += 1
        numbered = pods.model_copy(update={"number": self.number})
        await self._require()
        if not await self._is_taken(numbered):
            await self._send("sync_pods", numbered)

    async def _is_taken(self, pods: SyncPods) -> bool:
        """Have the workflow take a list by an update; say whether it has."""
        handle = self._client.get_workflow_handle(node_workflow_id(self._node))
        try:
            async with asyncio.timeout(_PROMPT_SECONDS):
                await handle.execute_update("sync_pods", pods)
        except (RPCError, TimeoutError, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
            # The SDK raises an error of its own for every cancellation, not only for that of the time limit.
            if (this := asyncio.current_task()) is not None and this.cancelling():
                raise asyncio.CancelledError from error
            return False
        return True

    async def node_status(self, status: NodeStatus) -> None:
        """Send the node's status."""
        await self._send("node_status", status)

    async def recall_pods(self, pods: RecallPods) -> None:
        """Send the pods that the node has for its lists."""
        await self._send("recall_pods", pods)

    async def view(self) -> NodeView | None:
        """Return what the node's workflow knows; None if it does not run.

        Raises RPCError while nobody answers, WorkflowQueryFailedError and ValueError for an invalid answer.
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

    async def _send(self, name: str, payload: Message) -> None:
        await self._require()
        await self._client.start_workflow(
            NODE_WORKFLOW,
            {"node": self._node},
            start_signal=name,
            start_signal_args=[payload],
            rpc_timeout=_RPC,
            **node_start_arguments(self._node),
        )
