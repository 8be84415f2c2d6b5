"""The arguments with which the workflows of pods and of a node are started, and update-with-start for a pod.

The command line and the node's own steps share them, so that a pod's workflow starts the same way wherever the pod
comes from.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client, WithStartWorkflowOperation, WorkflowExecutionStatus
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError

from syncpod.messages.identity import POD_WORKFLOW, node_task_queue, pod_workflow_id
from syncpod.messages.node import node_workflow_id
from syncpod.messages.pod_card import POD_MEMO, pod_card, pod_memo
from syncpod.messages.queries import labels_attribute
from syncpod.pod import Pod, pod_to_wire
from syncpod.temporal.timeouts import WORKFLOW_TASK

_NODE_DETAILS: Final = """\
**To type**

- `syncpod tree`
- `syncpod describe node {name}`
- `temporal workflow query --workflow-id {id} --type node`
- `temporal workflow list --query 'WorkflowType = "PodWorkflow" AND NodeName = "{name}"'`"""

ENDED: Final[frozenset[int]] = frozenset(
    (
        WorkflowExecutionStatus.COMPLETED,
        WorkflowExecutionStatus.FAILED,
        WorkflowExecutionStatus.CANCELED,
        WorkflowExecutionStatus.TERMINATED,
        WorkflowExecutionStatus.TIMED_OUT,
    )
)
"""The numbers of the workflow statuses in which a pod no longer has a workflow. In any other status the workflow owns
the pod, even in one that the SDK does not have, such as paused."""

_LOOK_SECONDS: Final = 0.2
_SUMMARY: Final = 390
"""Characters of a summary. A server accepts 400 bytes of a summary as JSON, and 20,000 of details."""
_RPC: Final = timedelta(seconds=5)


def start_operation(
    pod: Pod,
    node: str,
    *,
    has_attributes: bool,
    sender: str,
    begun_by: str = "",
    recorded: Pod | None = None,
    incarnation: str = "",
    creates: bool = False,
) -> WithStartWorkflowOperation[Any, Any]:
    """Return the operation that starts a pod's workflow on a node if it has none; use it for one attempt only.

    `has_attributes`: whether the namespace has our search attributes; the server refuses a start with an unknown one.
    `sender`: the identity of the client that applies the pod, for the workflow's page. `begun_by`: an id of the
    command, which `run_history.begun_by` returns later if this command began the run. `recorded` is the same pod as its
    node recorded it, in its life `incarnation`: its running containers are adopted. With `creates`, the server refuses
    the whole request with WorkflowAlreadyStartedError if the pod has a workflow.
    """
    adopted = adoption(incarnation) if recorded is not None and incarnation else {}
    return WithStartWorkflowOperation(
        POD_WORKFLOW,
        # The pod is in the start input too: nothing is lost if the server dies before the update is accepted.
        {
            "pod": pod_to_wire(recorded if recorded is not None and adopted else pod),
            "byUpdate": begun_by or True,
            **adopted,
        },
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL if creates else WorkflowIDConflictPolicy.USE_EXISTING,
        **start_arguments(pod, node, has_attributes=has_attributes, sender=sender),
    )


def start_arguments(pod: Pod, node: str, *, has_attributes: bool, sender: str = "") -> dict[str, Any]:
    """Return the arguments that start a pod's workflow on a node, without its input and its conflict policy.

    `has_attributes` and `sender` are those of `start_operation`; a `sender` of "" means that no client applies the pod.
    """
    meta = pod.metadata
    return {
        "id": pod_workflow_id(meta.namespace, meta.name),
        "task_queue": node_task_queue(node),
        "task_timeout": WORKFLOW_TASK,
        "static_summary": f"pod {meta.namespace}/{meta.name} on {node}"[:_SUMMARY],
        "static_details": pod_card(pod, node, sender),
        "memo": {POD_MEMO: pod_memo(pod, node, sender)},
        "search_attributes": _attributes(pod, node) if has_attributes else TypedSearchAttributes.empty,
    }


async def begin_pod(client: Client, pod: Pod, node: str, *, has_attributes: bool) -> bool:
    """Start the workflow of a pod that has none; return False if it has one, which then needs an update.

    This is an eager start: the server returns the first workflow task to this worker with its answer, and the workflow
    need not accept an update. So the caller must already have refused a document that the workflow would refuse. Raises
    RPCError.
    """
    try:
        await client.start_workflow(
            POD_WORKFLOW,
            {"pod": pod_to_wire(pod)},
            request_eager_start=True,
            rpc_timeout=_RPC,
            **start_arguments(pod, node, has_attributes=has_attributes, sender=client.identity),
        )
    except WorkflowAlreadyStartedError:
        return False
    return True


def adoption(incarnation: str) -> dict[str, Any]:
    """Return the additional start input that adopts the running containers of the pod's life `incarnation`."""
    return {"adopt": {"incarnation": incarnation}}


async def look_at(start: WithStartWorkflowOperation[Any, Any]) -> None:
    """Retrieve the handle of the started workflow, although it is not needed.

    The SDK stores a failure or a cancellation there too, and Python logs an exception that was never retrieved.
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
        "PodStatus": "Pending",
        "NodeName": node,
    }
    if pod.metadata.uid:  # others get their UID only in the workflow's first task
        keywords["PodUID"] = pod.metadata.uid
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(SearchAttributeKey.for_keyword(name), value) for name, value in keywords.items()
    ]
    pairs.append(SearchAttributePair(SearchAttributeKey.for_bool("PodReady"), False))
    pairs.append(SearchAttributePair(SearchAttributeKey.for_int("PodRestarts"), 0))
    if labels := labels_attribute(dict(pod.metadata.labels)):
        pairs.append(SearchAttributePair(SearchAttributeKey.for_keyword_list("PodLabels"), labels))
    return TypedSearchAttributes(pairs)


def node_start_arguments(node: str, *, has_attributes: bool) -> dict[str, Any]:
    """Return the arguments that start a node's workflow, without its input, conflict policy and first signal.

    `has_attributes`: whether the namespace has our search attributes; the server refuses a start with an unknown one.
    """
    name = SearchAttributePair(SearchAttributeKey.for_keyword("NodeName"), node)
    return {
        "id": node_workflow_id(node),
        "task_queue": node_task_queue(node),
        "task_timeout": WORKFLOW_TASK,
        "static_summary": f"node {node}",
        "static_details": _NODE_DETAILS.format(id=node_workflow_id(node), name=node),
        "search_attributes": TypedSearchAttributes([name]) if has_attributes else TypedSearchAttributes.empty,
    }
