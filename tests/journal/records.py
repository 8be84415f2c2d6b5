"""Records for tests of the journal, in few words."""

from datetime import UTC, datetime, timedelta
from typing import Any

from syncpod.journal.records import EventRecord, HistoryEntry, Instance, PodRun, TaskRecords

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
WEB = PodRun("default", "web", "uid-1", "inc-1")


def at(seconds: float) -> datetime:
    """The moment so many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def exit_line(seconds: float, restart: int = 0, **more: Any) -> HistoryEntry:
    said: dict[str, Any] = {"outcome": "exited 3 (Error)", "restart": restart}
    return HistoryEntry(at(seconds), "exit", "app", **{**said, **more})


def ended(restart: int = 0, *, begun: float = 0, end: float = 1, **more: Any) -> Instance:
    """One instance of container `app` that ran from `begun` to `end`."""
    said: dict[str, Any] = {"exit_code": 3, "reason": "Error", "id": f"id-{restart}", "image": "busybox:1"}
    return Instance("app", restart, started_at=at(begun), ended_at=at(end), **{**said, **more})


def event(seconds: float = 1, **more: Any) -> EventRecord:
    said: dict[str, Any] = {"type": "Warning", "reason": "BackOff", "message": "Back-off", "first": at(seconds)}
    return EventRecord(**{**said, "last": at(seconds), **more})


def records_of(seconds: float = 1, life: PodRun = WEB, **more: Any) -> TaskRecords:
    return TaskRecords(life, at(seconds), **more)
