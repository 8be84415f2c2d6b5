"""Handing a pod to its workflow: what a start of it says, whoever starts it, and what one update-with-start says.

Shared by the command line and the node's own steps, so that a pod's workflow begins alike however the pod came.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any, Final

from temporalio.client import WithStartWorkflowOperation, WorkflowExecutionStatus
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)

from syncpod.messages import POD_WORKFLOW, labels_attribute, node_task_queue, pod_workflow_id
from syncpod.pod import Pod, pod_to_wire

ENDED: Final[frozenset[int]] = frozenset(
    (
        WorkflowExecutionStatus.COMPLETED,
        WorkflowExecutionStatus.FAILED,
        WorkflowExecutionStatus.CANCELED,
        WorkflowExecutionStatus.TERMINATED,
        WorkflowExecutionStatus.TIMED_OUT,
    )
)
"""The states, as the server numbers them, in which a pod has no workflow any more. In any other, also one that the SDK
has no word for (it is paused), the workflow has the pod."""

_TASK_TIMEOUT: Final = timedelta(seconds=3)
_LOOK_SECONDS: Final = 0.2


def start_operation(
    pod: Pod, node: str, *, has_attributes: bool, recorded: Pod | None = None, incarnation: str = ""
) -> WithStartWorkflowOperation[Any, Any]:
    """Return what starts a pod's workflow on a node where there is none; it is for one try alone.

    `has_attributes` says whether the namespace has our search attributes: with an unknown one no workflow starts.
    `recorded` is the same pod as its node has noted it, in its life `incarnation`: what runs of that is adopted.
    """
    adopted = adoption(incarnation) if recorded is not None and incarnation else {}
    return WithStartWorkflowOperation(
        POD_WORKFLOW,
        # The pod is in the start input as well: nothing is lost if the server dies before the update is accepted.
        {"pod": pod_to_wire(recorded if recorded is not None and adopted else pod), "byUpdate": True, **adopted},
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        **start_arguments(pod, node, has_attributes=has_attributes),
    )


def start_arguments(pod: Pod, node: str, *, has_attributes: bool) -> dict[str, Any]:
    """Return how a pod's workflow is started on a node, but for its input and what becomes of one that is open.

    `has_attributes` as for `start_operation`.
    """
    meta = pod.metadata
    return {
        "id": pod_workflow_id(meta.namespace, meta.name),
        "task_queue": node_task_queue(node),
        "task_timeout": _TASK_TIMEOUT,
        "static_summary": f"pod {meta.namespace}/{meta.name} on {node}",
        "search_attributes": _attributes(pod, node) if has_attributes else TypedSearchAttributes.empty,
    }


def adoption(incarnation: str) -> dict[str, Any]:
    """Return what a start's input has besides the pod where what runs of it, in that life, is adopted."""
    return {"adopt": {"incarnation": incarnation}}


async def look_at(start: WithStartWorkflowOperation[Any, Any]) -> None:
    """Ask for the started workflow's handle, which nobody needs.

    The SDK keeps a failure or a cancellation there as well, and Python reports one that nobody has looked at.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LOOK_SECONDS):
            await asyncio.gather(start.workflow_handle(), return_exceptions=True)


def _attributes(pod: Pod, node: str) -> TypedSearchAttributes:
    """Return the search attributes that a pod's workflow is started with."""
    keywords = {
        "PodNamespace": pod.metadata.namespace,
        "PodName": pod.metadata.name,
        "PodPhase": "Pending",
        "NodeName": node,
    }
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(SearchAttributeKey.for_keyword(name), value) for name, value in keywords.items()
    ]
    if labels := labels_attribute(dict(pod.metadata.labels)):
        pairs.append(SearchAttributePair(SearchAttributeKey.for_keyword_list("PodLabels"), labels))
    return TypedSearchAttributes(pairs)
