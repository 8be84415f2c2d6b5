"""A run's pod, the command that began the run, and its end, read from history without a query or a worker."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.converter import DataConverter, decode_typed_search_attributes
from temporalio.service import RPCError, RPCStatusCode

from syncpod.messages.signed import plain
from syncpod.pod.problems import on_one_line

_PAGE: Final = 20
"""The events in a page, among which are the first step and the first search attributes of a run."""
_CLIP: Final = 100
"""The most characters shown of an identity or a reason, which anybody may have written."""
_TERMINATED: Final = "was terminated"
_ENDS: Final = {
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "was cancelled",
    WorkflowExecutionStatus.TERMINATED: _TERMINATED,
    WorkflowExecutionStatus.TIMED_OUT: "timed out",
}


class RunEnd(NamedTuple):
    """How a run has ended."""

    at: datetime
    how: str
    """``was terminated by NAME: REASON``, in one line; or ``completed``, ``failed``, and so on."""

    @property
    def sentence(self) -> str:
        """The end as a clause about a pod, with the time in this machine's zone."""
        verb, _, by = self.how.partition(" by ")
        return f"its workflow {verb} at {self.at.astimezone():%Y-%m-%d %H:%M:%S}{f', by {by}' if by else ''}"


async def pod_uid_of_run(client: Client, workflow_id: str, run_id: str, *, timeout: timedelta) -> str:
    """Return the UID of a run's pod; "" if its history does not have it yet.

    A run has one pod. The run's input has the UID if the run continues an earlier run, or adopts running containers.
    Otherwise the UID is in the search attributes that the run writes, and in the input of each step. Raises RPCError.
    """
    run = client.get_workflow_handle(workflow_id, run_id=run_id)
    async for event in run.fetch_history_events(page_size=_PAGE, rpc_timeout=timeout):
        if uid := await _uid_in(client.data_converter, event):
            return uid
    return ""


async def begun_by(client: Client, workflow_id: str, *, timeout: timedelta) -> str | None:
    """Return the id of the command that began the newest run (`workflow_starts.start_operation`), "" if none did.

    Returns None if there is no such workflow. Raises RPCError.
    """
    run = client.get_workflow_handle(workflow_id)
    try:
        async for event in run.fetch_history_events(page_size=1, rpc_timeout=timeout):
            start = plain(await _first(client.data_converter, event.workflow_execution_started_event_attributes.input))
            return _at(start, ("byUpdate",))
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
    return None


async def how_ended(client: Client, workflow_id: str, *, timeout: timedelta) -> RunEnd | None:
    """Return how the newest run has ended; None if it has not ended, or if its end is not known. Raises RPCError."""
    try:
        described = await client.get_workflow_handle(workflow_id).describe(rpc_timeout=timeout)
    except ValueError:  # a status that the SDK does not have, such as paused, which is no end
        return None
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise
    if described.status is None or described.close_time is None:
        return None
    word = _ENDS.get(described.status)
    if word is None:
        return None
    by = await _terminated_by(client, workflow_id, described.run_id, timeout) if word == _TERMINATED else ""
    return RunEnd(described.close_time, f"{word}{by}")


async def _terminated_by(client: Client, workflow_id: str, run_id: str, timeout: timedelta) -> str:
    """Return who terminated a run, and the reason that was given: `` by NAME: REASON``; "" if neither is recorded."""
    request = GetWorkflowExecutionHistoryReverseRequest(namespace=client.namespace, maximum_page_size=1)
    request.execution.workflow_id, request.execution.run_id = workflow_id, run_id
    answer = await client.workflow_service.get_workflow_execution_history_reverse(request, retry=True, timeout=timeout)
    for event in answer.history.events:
        said = event.workflow_execution_terminated_event_attributes
        by = f" by {on_one_line(said.identity, _CLIP)}" if said.identity else ""
        return f"{by}: {on_one_line(said.reason, _CLIP)}" if said.reason else by
    return ""


async def _uid_in(converter: DataConverter, event: HistoryEvent) -> str:
    """Return the UID that one event names; "" if it names none, or cannot be read."""
    attributes = event.upsert_workflow_search_attributes_event_attributes.search_attributes
    for pair in decode_typed_search_attributes(attributes):
        if pair.key.name == "PodUID":
            return str(pair.value)
    start = await _first(converter, event.workflow_execution_started_event_attributes.input)
    if isinstance(start, dict) and "adopt" in start:
        return _at(start, ("pod", "metadata", "uid"))
    step = await _first(converter, event.activity_task_scheduled_event_attributes.input)
    return _at(start, ("snapshot", "pod", "metadata", "uid")) or _at(step, ("ref", "uid"))


async def _first(converter: DataConverter, input_: Payloads) -> Any:
    """Return the first argument as JSON; None if there is none, or it cannot be decoded."""
    try:
        said = await converter.decode(input_.payloads)
    except Exception:  # noqa: BLE001  # the input may be anything, and a converter may raise anything
        return None
    return said[0] if said else None


def _at(document: Any, path: tuple[str, ...]) -> str:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, str) else ""
