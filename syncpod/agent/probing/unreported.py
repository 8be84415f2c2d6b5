"""Adds failures of probes that were counted but not signalled yet to a pod's events, for readers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from syncpod.journal.records import EventRecord
from syncpod.messages.queries import clipped, write_events


class UnreportedFailures(NamedTuple):
    """Failed answers of one probe of one instance."""

    container: str
    message: str
    """The event's text, not cut to an event's length yet."""
    failures: int
    """How many answers failed."""
    at: datetime
    """The time of the last failed answer."""


def with_unreported(events: Sequence[Any], unreported: Sequence[UnreportedFailures]) -> list[Any]:
    """Return a pod's events (JSON, oldest first) as they would be if these failures had been signalled."""
    found = list(events)
    for failures in unreported:
        known = next((event for event in found if _is_about(event, failures)), None)
        new = EventRecord(
            type="Warning",
            reason="Unhealthy",
            message=clipped(failures.message),
            container=failures.container,
            count=failures.failures,
            first=failures.at,
            last=failures.at,
        )
        (record,) = write_events([new])
        if known is not None:
            found.remove(known)
            record |= {"count": known["count"] + failures.failures, "first": known["first"]}
        found.append(record)
    return found


def _is_about(event: Any, failures: UnreportedFailures) -> bool:
    said = event["reason"], event["message"], event["container"]
    return said == ("Unhealthy", clipped(failures.message), failures.container)
