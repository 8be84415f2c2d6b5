"""Reads a recorded history from a file with the output of `temporal workflow show --output json`."""

from __future__ import annotations

from typing import Final

from google.protobuf.json_format import ParseError
from temporalio.client import WorkflowHistory

from syncpod.messages.fleet import FLEET_NODE_WORKFLOW
from syncpod.messages.fleet_objects import FLEET_OBJECT_WORKFLOW
from syncpod.messages.identity import POD_WORKFLOW
from syncpod.messages.node import NODE_WORKFLOW
from syncpod.messages.remote_command import REMOTE_COMMAND_WORKFLOW
from syncpod.messages.workload import WORKLOAD_WORKFLOW

KINDS: Final = (
    POD_WORKFLOW,
    NODE_WORKFLOW,
    FLEET_NODE_WORKFLOW,
    FLEET_OBJECT_WORKFLOW,
    WORKLOAD_WORKFLOW,
    REMOTE_COMMAND_WORKFLOW,
)
"""The workflow types whose histories can be replayed: all that the workers of a node and of a fleet serve."""
_SHOULD_BE: Final = (
    "must be the history of a pod's or a node's run from its first event on, as "
    "`temporal workflow show --workflow-id pod/default/web --output json` prints it"
)


class NoHistory(ValueError):
    """The input cannot be replayed. The text is one sentence: the reason, and the expected input."""


def read_history(text: bytes) -> WorkflowHistory:
    """Return the history of a run. Raises NoHistory for any other text, and for a history without its first events."""
    try:
        # In the server's JSON each event names its kind; any other form fails in one of these ways.
        history = WorkflowHistory.from_json("", text.decode())
    except (ParseError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NoHistory(_SHOULD_BE) from None
    return checked(WorkflowHistory(_workflow_id(history), history.events))


def checked(history: WorkflowHistory) -> WorkflowHistory:
    """Return the history of a pod's or a node's run. Raises NoHistory for any other."""
    events = history.events
    if not events or not events[0].HasField("workflow_execution_started_event_attributes"):
        raise NoHistory(_SHOULD_BE)
    if missing := next((at for at, event in enumerate(events, 1) if event.event_id != at), 0):
        raise NoHistory(f"event {missing} is missing: {_SHOULD_BE}")
    kind = events[0].workflow_execution_started_event_attributes.workflow_type.name
    if kind not in KINDS:
        raise NoHistory(f"the history is of a {kind}: {_SHOULD_BE}")
    return history


def _workflow_id(history: WorkflowHistory) -> str:
    events = history.events
    return events[0].workflow_execution_started_event_attributes.workflow_id if events else ""
