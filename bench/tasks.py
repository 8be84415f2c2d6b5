"""Workflow tasks and steps of a run, counted in its history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent


@dataclass(frozen=True)
class Tasks:
    """The tasks of some runs that the server has dispatched to the worker."""

    workflow: int = 0
    """Workflow tasks, including those that were scheduled again."""
    timed_out: int = 0
    """Workflow tasks that the worker did not complete in time, or that stayed in a dead worker's sticky queue."""
    failed: int = 0
    """Workflow tasks that the worker failed, or whose result the server rejected for newer events."""
    steps: int = 0
    tries: int = 0
    """Attempts of steps; more than `steps` if some were retried."""
    events: int = 0

    def __add__(self, other: Tasks) -> Tasks:
        """Return the sum."""
        return Tasks(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


def counted(events: Iterable[HistoryEvent]) -> Tasks:
    """Count the tasks in one run's history.

    If a task fails several times in a row, the history has only the first failure; the next scheduled task has the
    number of attempts.
    """
    kinds = {name: 0 for name in ("workflow", "timed_out", "failed", "steps", "tries", "events")}
    for event in events:
        kinds["events"] += 1
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED:
                unwritten = max(0, event.workflow_task_scheduled_event_attributes.attempt - 2)
                kinds["workflow"] += 1 + unwritten
                kinds["timed_out"] += unwritten
            case EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
                kinds["timed_out"] += 1
            case EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
                kinds["failed"] += 1
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                kinds["steps"] += 1
            case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                kinds["tries"] += event.activity_task_started_event_attributes.attempt
    return Tasks(**kinds)
