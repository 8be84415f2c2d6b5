"""Short constructors of journal records for tests."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from syncpod.journal.records import EventRecord, HistoryEntry, Instance, PodLife, TaskRecords
from syncpod.lifecycle.exit import Exit

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
WEB = PodLife("default", "web", "uid-1", "inc-1")


def at(seconds: float) -> datetime:
    """The time this many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def exit_line(seconds: float, restart: int = 0, **more: Any) -> HistoryEntry:
    said: dict[str, Any] = {"outcome": "exited 3 (Error)", "restart": restart}
    return HistoryEntry(at(seconds), "exit", "app", **{**said, **more})


def ended(restart: int = 0, *, begun: float = 0, end: float = 1, container: str = "app", **more: Any) -> Instance:
    """One instance of the container `app` that ran from `begun` to `end`, by default with exit code 3."""
    known: dict[str, Any] = {"restart": restart, "id": more.pop("id", f"id-{restart}"), "started_at": at(begun)}
    image, log_end = more.pop("image", "busybox:1"), more.pop("log_end", "")
    exit_ = Exit(name=container, **known, **{"exit_code": 3, "reason": "Error", "finished_at": at(end), **more})
    return Instance(container, image=image, exit=exit_, log_end=log_end, **known)


def otherwise(instance: Instance, **more: Any) -> Instance:
    """The same instance, with another kind of end."""
    assert instance.exit is not None
    return replace(instance, exit=replace(instance.exit, **more))


def event(seconds: float = 1, **more: Any) -> EventRecord:
    said: dict[str, Any] = {"type": "Warning", "reason": "BackOff", "message": "Back-off", "first": at(seconds)}
    return EventRecord(**{**said, "last": at(seconds), **more})


def records_of(seconds: float = 1, life: PodLife = WEB, **more: Any) -> TaskRecords:
    return TaskRecords(life, at(seconds), **more)
