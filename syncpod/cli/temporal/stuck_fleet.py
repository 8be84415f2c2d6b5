"""Finds out why a workflow of a fleet does not answer, although the fleet's worker is alive.

A database that was restored from a backup needs the sealing keys of its time. Without a key, a node's answers in a
history cannot be opened: the history cannot be replayed, and each task of its workflow fails.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from typing import Final

from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from syncpod.messages.fleet import FLEET_NODE_PREFIX, FLEET_NODE_WORKFLOW, FLEET_QUEUE, FleetNodeSummary, fleet_node_id
from syncpod.messages.sealing import is_sealed
from syncpod.messages.workload import WORKLOAD_WORKFLOW
from syncpod.temporal.sealing import FleetCodec

_RPC: Final = timedelta(seconds=5)
_KINDS: Final = {FLEET_NODE_PREFIX: FLEET_NODE_WORKFLOW, "workload/": WORKLOAD_WORKFLOW}
"""The types of a fleet's workflows, by the prefix of the workflow id."""
_PAGE: Final = 100
"""How many events are read at once. A quiet node has as many in two and a half hours."""


async def failed_tries(client: Client, workflow_id: str) -> int:
    """Return how often the pending task of a workflow has failed or timed out. Raises RPCError."""
    described = await client.get_workflow_handle(workflow_id).describe(rpc_timeout=_RPC)
    return max(0, described.raw_description.pending_workflow_task.attempt - 1)


async def taken_by_another(client: Client, workflow_id: str) -> str:
    """Return a sentence if the open workflow with this id is not one of the fleet's; else "".

    Every client of the server can start a workflow under such an id, of a type or on a task queue that the fleet's
    worker does not serve. Raises RPCError.
    """
    expected = next((kind for prefix, kind in _KINDS.items() if workflow_id.startswith(prefix)), None)
    described = await client.get_workflow_handle(workflow_id).describe(rpc_timeout=_RPC)
    is_open = described.status == WorkflowExecutionStatus.RUNNING
    found = described.workflow_type, described.task_queue
    if not is_open or expected is None or found == (expected, FLEET_QUEUE):
        return ""
    return (
        f"workflow {workflow_id} is not the fleet's, but a {found[0]} on task queue {found[1]}: "
        f"`temporal workflow terminate -w {workflow_id}` at the fleet's server frees the name"
    )


async def without_a_key(client: Client, workflow_id: str) -> str:
    """Return a sentence with the sealing keys that a stuck workflow lacks, and with advice; else "".

    The history is read from its end, only to the page with the newest answer that cannot be opened: earlier answers are
    mostly sealed for the same key. Raises RPCError.
    """
    codec = client.data_converter.payload_codec
    if not isinstance(codec, FleetCodec) or not await failed_tries(client, workflow_id):
        return ""
    missing: dict[str, None] = {}
    async for page in _pages_from_the_end(client, workflow_id):
        answers = [payload for event in reversed(page) for payload in _answers(event)]
        missing = dict.fromkeys(key for payload in answers for key in codec.missing(payload))
        if missing:
            break
    else:
        return ""
    node, files = workflow_id.removeprefix(FLEET_NODE_PREFIX), ", ".join(f"sealing/{each}.key" for each in missing)
    return (
        f"the workflow of node {node} cannot go on, as what the node answered is sealed for key {', '.join(missing)}, "
        f"which the fleet does not have here: put {files} back from the backup of the fleet's directory; or, if it is "
        f"lost, end the workflow with `temporal workflow terminate --workflow-id {workflow_id}`, and within "
        "six minutes the fleet asks the node what it runs"
    )


async def without_the_key_of(client: Client, node: FleetNodeSummary) -> str:
    """Return a clause if a node's workflow is stuck because the key that the node seals for is missing; else "".

    The node's summary names that key, so no history is read. Raises RPCError.
    """
    codec = client.data_converter.payload_codec if node.fleet_key else None
    if not (isinstance(codec, FleetCodec) and codec.lacking([node.fleet_key])):
        return ""
    try:
        is_stuck = await failed_tries(client, fleet_node_id(node.name)) > 0
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:  # it has ended since it was listed
            raise
        return ""
    return f"its answers are sealed for key {node.fleet_key}, which the fleet does not have here" if is_stuck else ""


async def _pages_from_the_end(client: Client, workflow_id: str) -> AsyncIterator[Sequence[HistoryEvent]]:
    """Yield the events of the workflow's newest run, page by page, the newest first."""
    token = b""
    while True:
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=workflow_id),
            maximum_page_size=_PAGE,
            next_page_token=token,
        )
        found = await client.workflow_service.get_workflow_execution_history_reverse(request, retry=True, timeout=_RPC)
        yield found.history.events
        token = found.next_page_token
        if not token:
            return


def _answers(event: HistoryEvent) -> Iterator[Payload]:
    """Yield the payloads that a node has sealed for the fleet in this event: an activity's result, or its failure."""
    yield from (each for each in event.activity_task_completed_event_attributes.result.payloads if _is_sealed(each))
    failure = event.activity_task_failed_event_attributes.failure
    if _is_sealed(failure.encoded_attributes):
        yield failure.encoded_attributes


def _is_sealed(payload: Payload) -> bool:
    return is_sealed(dict(payload.metadata))
