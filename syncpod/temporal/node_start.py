"""How a node's workflow is started."""

from __future__ import annotations

from typing import Any, Final

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from syncpod.messages.identity import node_task_queue
from syncpod.messages.node import node_workflow_id
from syncpod.temporal.timeouts import WORKFLOW_TASK

_DETAILS: Final = """\
**To type**

- `syncpod tree`
- `syncpod describe node {name}`
- `temporal workflow query --workflow-id {id} --type node`
- `temporal workflow list --query 'WorkflowType = "PodWorkflow" AND NodeName = "{name}"'`"""


def node_start_arguments(node: str, *, has_attributes: bool) -> dict[str, Any]:
    """Return the arguments that start a node's workflow, without its input, conflict policy and first signal.

    `has_attributes`: whether the namespace has our search attributes; with an unknown one no workflow starts.
    """
    name = SearchAttributePair(SearchAttributeKey.for_keyword("NodeName"), node)
    return {
        "id": node_workflow_id(node),
        "task_queue": node_task_queue(node),
        "task_timeout": WORKFLOW_TASK,
        "static_summary": f"node {node}",
        "static_details": _DETAILS.format(id=node_workflow_id(node), name=node),
        "search_attributes": TypedSearchAttributes([name]) if has_attributes else TypedSearchAttributes.empty,
    }
