"""The events that a workflow of a node or of a fleet keeps. It counts repeats as the kubelet's recorder does."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from syncpod.journal.records import EventRecord, EventType
from syncpod.pod.wire import shortened
from workflows.rejections import REJECTED, without_surplus

EVENTS_KEPT: Final = 100
"""How many events a snapshot keeps. Every continue-as-new writes the whole snapshot again."""
TEXT_LIMIT: Final = 500
"""How many characters of a message from elsewhere are kept."""
TEXT_BYTES: Final = 1000
"""How many bytes of JSON a message from elsewhere may take. A control character takes six, and an emoji twelve."""


class EventLog:
    """The part of a workflow's state that records its events, in the field `events` of the state."""

    if TYPE_CHECKING:
        events: tuple[EventRecord, ...]
        """Oldest first. The state itself defines the field, so that the field has its place in the snapshot."""

    def event(self, now: datetime, kind: EventType, reason: str, message: str) -> None:
        """Record an event as the newest one. A repeat raises the count of the event that it repeats."""
        text = clipped(message)
        seen = next(
            (each for each in self.events if (each.type, each.reason, each.message) == (kind, reason, text)), None
        )
        record = EventRecord(
            type=kind,
            reason=reason,
            message=text,
            count=seen.count + 1 if seen else 1,
            first=seen.first if seen else now,
            last=now,
        )
        kept = (*(each for each in self.events if each is not seen), record)
        if reason == REJECTED:
            kept = without_surplus(kept, lambda each: each.reason == REJECTED)
        self.events = kept[-EVENTS_KEPT:]

    def reject(self, now: datetime, name: str, why: str) -> None:
        """Record that a message was not accepted, and why."""
        self.event(now, "Warning", REJECTED, f"{name}: {why}")


def clipped(text: str) -> str:
    """Return a message cut to :data:`TEXT_LIMIT` and :data:`TEXT_BYTES`."""
    return shortened(text if len(text) <= TEXT_LIMIT else f"{text[: TEXT_LIMIT - 1]}…", TEXT_BYTES)
