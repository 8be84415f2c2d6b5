"""Finds the workflows of a node or a fleet that need a key, and renews them under the newest key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode


async def workflows_with_key(client: Client, queue: str, key: str) -> list[str]:
    """Return the ids of the open workflows of a task queue whose histories need the key of this id.

    All events are read, since a replay verifies all of them. Raises RPCError.
    """
    found = []
    async for workflow_id in _open_workflows(client, queue):
        async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
            if key.encode() in event.SerializeToString():
                found.append(workflow_id)
                break
    return found


async def ended_before(client: Client, queue: str, moment: datetime) -> int:
    """Return how many ended runs of a task queue's workflows had started by a moment. Raises RPCError."""
    query = f"TaskQueue = '{queue}' AND ExecutionStatus != 'Running' AND StartTime <= '{moment.isoformat()}'"
    return (await client.count_workflows(query)).count


async def renew_workflows(client: Client, queue: str) -> int:
    """Signal a task queue's open workflows to continue as new, with inputs under the newest key; return how many.

    Raises RPCError.
    """
    asked = 0
    async for workflow_id in _open_workflows(client, queue):
        try:
            await client.get_workflow_handle(workflow_id).signal("renew", {})
            asked += 1
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:  # NOT_FOUND: it has ended since it was listed
                raise
    return asked


async def _open_workflows(client: Client, queue: str) -> AsyncIterator[str]:
    query = f"TaskQueue = '{queue}' AND ExecutionStatus = 'Running'"
    async for execution in client.list_workflows(query):
        yield execution.id
