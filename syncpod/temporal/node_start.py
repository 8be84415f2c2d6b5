"""How a node's workflow is started."""

from __future__ import annotations

from typing import Any

from syncpod.messages.identity import node_task_queue
from syncpod.messages.node import node_workflow_id
from syncpod.temporal.timeouts import WORKFLOW_TASK


def node_start_arguments(node: str) -> dict[str, Any]:
    """Return the arguments that start a node's workflow, without its input, conflict policy and first signal."""
    return {
        "id": node_workflow_id(node),
        "task_queue": node_task_queue(node),
        "task_timeout": WORKFLOW_TASK,
        "static_summary": f"node {node}",
    }
