"""How the workflow of a fleet's node is started."""

from __future__ import annotations

from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy

from syncpod.messages.fleet import FLEET_NODE_WORKFLOW, FLEET_QUEUE, fleet_node_id


async def start_fleet_node(client: Client, fleet: str, node: str, **more: Any) -> WorkflowHandle[Any, Any]:
    """Have a fleet know a node, and return its workflow, which is started unless it runs. Raises RPCError.

    `client` is one of the fleet's server. `more` goes into the workflow's input, in its words.
    """
    return await client.start_workflow(
        FLEET_NODE_WORKFLOW,
        {"fleet": fleet, "node": node, **more},
        id=fleet_node_id(node),
        task_queue=FLEET_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        static_summary=f"node {node} of fleet {fleet}",
    )
