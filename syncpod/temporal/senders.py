"""The senders of a workflow's signals and updates, as the server has recorded them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client

_PAGE: Final = 50
_PAGES: Final = 4
"""The most events in a page, and the most pages, that are read of a run's history, the newest event first."""
_ANSWER: Final = timedelta(seconds=10)


@dataclass(frozen=True)
class Sent:
    """One signal, update or cancellation request that a workflow has received."""

    at: datetime
    """When the workflow received it, by the server's clock."""
    name: str
    """The name of the signal or update; `cancel` for a request to cancel."""
    identity: str
    """The identity that the sender's client gives."""


async def sent_to(client: Client, workflow_id: str, run_id: str) -> list[Sent]:
    """Return the latest messages to a run, newest first. Raises RPCError."""
    return [sent async for event in _newest_events(client, workflow_id, run_id) if (sent := _sent(event)) is not None]


async def _newest_events(client: Client, workflow_id: str, run_id: str) -> AsyncIterator[HistoryEvent]:
    token = b""
    for _ in range(_PAGES):
        page = await client.workflow_service.get_workflow_execution_history_reverse(
            GetWorkflowExecutionHistoryReverseRequest(
                namespace=client.namespace,
                execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
                maximum_page_size=_PAGE,
                next_page_token=token,
            ),
            timeout=_ANSWER,
        )
        for event in page.history.events:
            yield event
        token = page.next_page_token
        if not token:
            return


def _sent(event: HistoryEvent) -> Sent | None:
    at = event.event_time.ToDatetime(UTC)
    match event.event_type:
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
            signal = event.workflow_execution_signaled_event_attributes
            return Sent(at, signal.signal_name, signal.identity)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
            request = event.workflow_execution_update_accepted_event_attributes.accepted_request
            return Sent(at, request.input.name, request.meta.identity)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
            return Sent(at, "cancel", event.workflow_execution_cancel_requested_event_attributes.identity)
        case _:
            return None
