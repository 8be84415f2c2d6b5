"""Which workflows of a node need a key, and how they come not to."""

from __future__ import annotations

from collections.abc import AsyncIterator

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.messages.identity import node_task_queue


async def workflows_with_key(client: Client, node: str, key: str) -> list[str]:
    """Return the ids of a node's open workflows whose histories have something that was signed with the key of this id.

    Each of their events is read, since a replay verifies each. Raises RPCError.
    """
    found = []
    async for workflow_id in _open_workflows(client, node):
        async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
            if key.encode() in event.SerializeToString():
                found.append(workflow_id)
                break
    return found


async def renew_workflows(client: Client, node: str) -> int:
    """Have a node's open workflows continue as new, with inputs that the newest key has signed; return how many.

    Raises RPCError.
    """
    asked = 0
    async for workflow_id in _open_workflows(client, node):
        try:
            await client.get_workflow_handle(workflow_id).signal("renew", {})
            asked += 1
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:  # it has ended since
                raise
    return asked


async def _open_workflows(client: Client, node: str) -> AsyncIterator[str]:
    query = f"TaskQueue = '{node_task_queue(node)}' AND ExecutionStatus = 'Running'"
    async for execution in client.list_workflows(query):
        yield execution.id
