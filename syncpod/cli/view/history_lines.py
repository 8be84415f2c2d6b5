"""Renders a pod's history as a table, and reads it from Temporal's events if no worker answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from syncpod.api.views.text import columns
from syncpod.journal.records import HistoryEntry

if TYPE_CHECKING:
    from temporalio.api.history.v1 import HistoryEvent

    from syncpod.journal.records import EntryKind


_WITHOUT_EFFECT: Final = "notBegun"
"""The outcome of a start that began ahead, and whose turn did not come: it has done nothing, and another start follows
(`syncpod.messages.steps.Outcome`)."""
HEADER: Final = ("TIME", "KIND", "WHAT", "OUTCOME", "TRY", "TOOK", "WHY")


def lines(records: Sequence[HistoryEntry], *, headers: bool = True) -> list[str]:
    """Return the history as a table, oldest first. A step is placed at its begin, before its effects."""
    told = [each for each in records if each.outcome != _WITHOUT_EFFECT]
    shown = sorted(zip(_begun(told), told, strict=True), key=lambda each: each[0])
    return columns([*([HEADER] if headers else []), *(_row(record, begun) for begun, record in shown)])


def _begun(records: Sequence[HistoryEntry]) -> list[datetime]:
    """Return when each record's step began.

    A start ahead begins before the end of the step that precedes it. No step is shown with a later begin than the step
    after it.
    """
    found: list[datetime] = []
    follower: HistoryEntry | None = None
    for record in reversed(records):
        begun = record.at - timedelta(milliseconds=record.took_ms)
        came_together = follower is not None and (record.kind, record.at) == (follower.kind, follower.at)
        found.append(min(begun, found[-1]) if came_together else begun)
        follower = record
    return found[::-1]


def _row(record: HistoryEntry, begun: datetime) -> tuple[str, ...]:
    return (
        begun.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
        record.kind,
        _what(record),
        record.outcome or "-",
        str(record.attempt) if record.attempt else "-",
        _took(record.took_ms),
        " ".join(record.reason.split()) or "-",
    )


def _what(record: HistoryEntry) -> str:
    which = f"(restart {record.restart})" if record.restart else ""
    return " ".join(part for part in (record.subject, record.container, which) if part) or "-"


def _took(milliseconds: int) -> str:
    if not milliseconds:
        return "-"
    return f"{milliseconds}ms" if milliseconds < 10_000 else f"{milliseconds / 1000:.1f}s"


# --- from Temporal's own history --------------------------------------------------------------------------------------


def from_events(events: Iterable[HistoryEvent]) -> list[HistoryEntry]:
    """Return the records that the events of one run give: steps with their attempts, signals, updates, holds.

    The workflow itself keeps more: exits, decisions and earlier runs are not in these events. If a step waited for
    another, and their results came together, the two are in the order of their scheduling.
    """
    scheduled: dict[int, HistoryEvent] = {}
    tries: dict[int, int] = {}
    records: list[HistoryEntry] = []
    newest: HistoryEvent | None = None  # the event that scheduled the last record's step
    for event in events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled[event.event_id] = event
            continue
        if event.HasField("activity_task_started_event_attributes"):
            started = event.activity_task_started_event_attributes
            tries[started.scheduled_event_id] = started.attempt
            continue
        if ended := _ended(event):
            scheduled_id, outcome = ended
            if (begun := scheduled.get(scheduled_id)) is not None:
                record = _step(begun, event, tries.get(scheduled_id, 0), outcome)
                records.insert(len(records) - (newest is not None and _precedes(begun, newest)), record)
                newest = begun
                continue
        elif event.HasField("workflow_execution_signaled_event_attributes"):
            name = event.workflow_execution_signaled_event_attributes.signal_name
            records.append(_record(event, "signal", name))
        elif event.HasField("workflow_execution_update_accepted_event_attributes"):
            request = event.workflow_execution_update_accepted_event_attributes.accepted_request
            records.append(_record(event, "update", request.input.name))
        elif event.HasField("timer_started_event_attributes"):
            records.append(_record(event, "hold", _summary(event)))
        else:
            continue
        newest = None
    return records


def _precedes(step: HistoryEvent, other: HistoryEvent) -> bool:
    """Return whether `step` was scheduled before `other`, and `other` waited for its end before acting."""
    scheduled = [each.activity_task_scheduled_event_attributes for each in (step, other)]
    follows = all(each.activity_type.name.startswith(("create_sandbox", "start_")) for each in scheduled)
    one_task = len({each.workflow_task_completed_event_id for each in scheduled}) == 1
    return (follows or one_task) and step.event_id < other.event_id


def _ended(event: HistoryEvent) -> tuple[int, str] | None:
    """If this event ends a step, return the id of the event that scheduled the step, and the outcome; else None."""
    if event.HasField("activity_task_completed_event_attributes"):
        return event.activity_task_completed_event_attributes.scheduled_event_id, "done"
    if event.HasField("activity_task_failed_event_attributes"):
        failed = event.activity_task_failed_event_attributes
        kind = failed.failure.application_failure_info.type
        return failed.scheduled_event_id, f"{kind}: {failed.failure.message}" if kind else failed.failure.message
    if event.HasField("activity_task_timed_out_event_attributes"):
        return event.activity_task_timed_out_event_attributes.scheduled_event_id, "timed out"
    if event.HasField("activity_task_canceled_event_attributes"):
        return event.activity_task_canceled_event_attributes.scheduled_event_id, "cancelled"
    return None


def _step(scheduled: HistoryEvent, ended: HistoryEvent, attempt: int, outcome: str) -> HistoryEntry:
    took = ended.event_time.ToDatetime(UTC) - scheduled.event_time.ToDatetime(UTC)
    return HistoryEntry(
        at=ended.event_time.ToDatetime(UTC),
        kind="step",
        subject=scheduled.activity_task_scheduled_event_attributes.activity_type.name,
        reason=_summary(scheduled),
        outcome=outcome,
        attempt=attempt,
        took_ms=round(took.total_seconds() * 1000),
    )


def _record(event: HistoryEvent, kind: EntryKind, subject: str) -> HistoryEntry:
    return HistoryEntry(event.event_time.ToDatetime(UTC), kind, subject)


def _summary(event: HistoryEvent) -> str:
    """Return the summary of a step or timer, which our data converter writes as JSON text."""
    text = event.user_metadata.summary.data.decode(errors="replace")
    return text[1:-1].replace('\\"', '"') if text.startswith('"') else text
