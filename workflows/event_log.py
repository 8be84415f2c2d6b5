"""The events that a workflow of a node or of a fleet keeps, repeats counted as the kubelet's recorder does."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from syncpod.journal.records import EventRecord, EventType
from syncpod.pod.wire import shortened
from workflows.rejections import REJECTED, without_surplus

EVENTS_KEPT: Final = 100
"""How many events a snapshot keeps. It is written again with every continue-as-new."""
TEXT_LIMIT: Final = 500
"""Characters kept of a message that comes from elsewhere."""
TEXT_BYTES: Final = 1000
"""Bytes of JSON that it may take. A control character takes six, and an emoji twelve."""


def with_event(
    events: tuple[EventRecord, ...], now: datetime, kind: EventType, reason: str, message: str
) -> tuple[EventRecord, ...]:
    """Return the events, oldest first, with one more; a repeat is counted and becomes the newest."""
    text = clipped(message)
    seen = next((each for each in events if (each.type, each.reason, each.message) == (kind, reason, text)), None)
    record = EventRecord(
        type=kind,
        reason=reason,
        message=text,
        count=seen.count + 1 if seen else 1,
        first=seen.first if seen else now,
        last=now,
    )
    kept = (*(each for each in events if each is not seen), record)
    if reason == REJECTED:
        kept = without_surplus(kept, lambda each: each.reason == REJECTED)
    return kept[-EVENTS_KEPT:]


def clipped(text: str) -> str:
    """Return a message cut to :data:`TEXT_LIMIT` and :data:`TEXT_BYTES`."""
    return shortened(text if len(text) <= TEXT_LIMIT else f"{text[: TEXT_LIMIT - 1]}…", TEXT_BYTES)
