"""Queries the server for open pods' workflows, for commands that read pods through the node's API.

A command that called the server itself would import the Temporal SDK, which takes longer than the rest of the command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.node import NODE_WORKFLOW, node_workflow_id
from syncpod.messages.running_steps import PendingStep
from syncpod.temporal.pending_steps import pending_steps
from syncpod.temporal.pod_search_attributes import open_pods
from syncpod.temporal.workflow_starts import ENDED

_RPC: Final = timedelta(seconds=8)
"""The timeout of a call. A command waits somewhat longer for the worker's answer, and then calls the server itself."""


class OpenPodsUnknown(Exception):
    """The open pods cannot be determined. The command then calls the server itself, and reports its errors."""


class OpenPods:
    """Queries the server at each call; nothing is cached."""

    def __init__(self, client: Client, require_cluster: Callable[[], Awaitable[None]], task_queue: str) -> None:
        """`require_cluster` raises RPCError if another cluster than the node's answers, or none.

        `task_queue` is the node's own.
        """
        self._client = client
        self._task_queue = task_queue
        self._require_cluster = require_cluster

    async def require_own(self) -> None:
        """Raise OpenPodsUnknown if another cluster than the node's answers, or none."""
        try:
            await self._require_cluster()
        except RPCError as error:
            raise OpenPodsUnknown from error

    async def listed(self, namespace: str | None) -> dict[str, WorkflowExecution]:
        """Return the open workflows of a namespace's pods by workflow id; None = of all namespaces.

        They are read from visibility, which may lag by a moment. Raises OpenPodsUnknown.
        """

        async def listed() -> dict[str, WorkflowExecution]:
            found = self._client.list_workflows(open_pods(namespace), rpc_timeout=_RPC)
            return {each.id: each async for each in found}

        try:
            _, executions = await asyncio.gather(self._require_cluster(), listed())
        except (RPCError, ValueError) as error:  # ValueError: a state that the SDK does not know
            raise OpenPodsUnknown from error
        return executions

    def are_ours(self, executions: Iterable[WorkflowExecution]) -> bool:
        """Say whether all these workflows are on this node's task queue."""
        return all(each.task_queue == self._task_queue for each in executions)

    async def named(self, namespace: str, names: Sequence[str]) -> dict[str, str]:
        """Return the run ids of the named pods' open workflows, by workflow id. Raises OpenPodsUnknown."""
        workflow_ids = [pod_workflow_id(namespace, name) for name in names]
        try:
            _, *found = await asyncio.gather(self._require_cluster(), *map(self._run_of, workflow_ids))
        except (RPCError, ValueError) as error:
            raise OpenPodsUnknown from error
        return {each: run for each, run in zip(workflow_ids, found, strict=True) if run}

    async def still_open(self, workflow_ids: Sequence[str]) -> dict[str, str]:
        """Return the run ids of the given workflows that are open, by workflow id. Visibility may have missed them.

        Raises OpenPodsUnknown, also if one of them belongs to another node.
        """
        try:
            found = await asyncio.gather(*map(self._described, workflow_ids))
        except (RPCError, ValueError) as error:
            raise OpenPodsUnknown from error
        there = {each.id: each for each in found if each is not None}
        if any(each.task_queue != self._task_queue for each in there.values()):
            raise OpenPodsUnknown
        return {each: described.run_id for each, described in there.items()}

    async def has_other_nodes(self, node: str) -> bool:
        """Return whether the namespace has the workflow of another node, open or ended. Raises OpenPodsUnknown."""
        query = f"WorkflowType = '{NODE_WORKFLOW}' AND WorkflowId STARTS_WITH 'node/'"
        query += f" AND WorkflowId != '{node_workflow_id(node)}'"
        try:
            return bool([each async for each in self._client.list_workflows(query, limit=1, rpc_timeout=_RPC)])
        except (RPCError, ValueError) as error:
            raise OpenPodsUnknown from error

    async def pending_steps(self, workflow_id: str) -> Sequence[PendingStep]:
        """Return the steps of a pod that are pending activities on the server. Raises OpenPodsUnknown."""
        try:
            described = await self._client.get_workflow_handle(workflow_id).describe(rpc_timeout=_RPC)
        except (RPCError, ValueError) as error:
            raise OpenPodsUnknown from error
        return await pending_steps(described)

    async def _run_of(self, workflow_id: str) -> str:
        """Return the id of a workflow's open run; "" if it has none. Raises RPCError, ValueError, OpenPodsUnknown."""
        described = await self._described(workflow_id)
        return "" if described is None else described.run_id

    async def _described(self, workflow_id: str) -> WorkflowExecutionDescription | None:
        """Return the server's description of a workflow, None if it is not open. Raises as `_run_of`."""
        try:
            described = await self._client.get_workflow_handle(workflow_id).describe(rpc_timeout=_RPC)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
            raise
        if described.status in ENDED:
            return None
        if described.status != WorkflowExecutionStatus.RUNNING:
            raise OpenPodsUnknown
        return described
