"""Decides which events of a node are written, so that repeated events do not flood the cluster.

Mirrors client-go's tools/record/events_cache.go (v0.36), EventCorrelator, with its figures. Difference: the part of the
node that causes an event keeps the event's count, which thus continues after a restart of the worker.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Generic, TypeVar

from syncpod.kubernetes.events import Event

KEPT: Final = 4096
"""Maximum number of remembered objects, and of remembered kinds of events; the least recently used is dropped first."""
SIMILAR: Final = 10
"""Events of one kind are combined into one Event once they have this number of different messages."""
SIMILAR_SECONDS: Final = 600.0
"""After this many seconds without an event of the kind, its messages are counted anew."""
BURST: Final = 25
"""Maximum number of events of one object in a burst."""
REFILL_SECONDS: Final = 300.0
"""Seconds after which one more event of the object may be written."""
COMBINED: Final = "(combined from similar events): "

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(Generic[_Key, _Value]):
    """A cache of a fixed number of entries; the least recently used is dropped first."""

    def __init__(self, kept: int, make: Callable[[], _Value]) -> None:
        """Keep at most `kept` entries; `make` makes one for a key that has none."""
        self._kept, self._make = kept, make
        self._entries: OrderedDict[_Key, _Value] = OrderedDict()

    def of(self, key: _Key) -> _Value:
        """Return the entry of a key, which is now the one used last."""
        if key not in self._entries:
            self._entries[key] = self._make()
            if len(self._entries) > self._kept:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return self._entries[key]

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)


class TokenBucket:
    """A rate limit: a burst at once, and then one token for each refill interval."""

    def __init__(self, burst: int, refill_seconds: float) -> None:
        """Begin full."""
        self._burst, self._refill = burst, refill_seconds
        self._tokens, self._at = float(burst), float("-inf")

    def take(self, now: float) -> bool:
        """Take a token, and return whether there was one; `now` is a steady time in seconds."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def seconds_until_next(self, now: float) -> float:
        """Return the seconds until there is a token; 0 if there is one."""
        self._fill(now)
        return max(0.0, (1 - self._tokens) * self._refill)

    def _fill(self, now: float) -> None:
        if now > self._at:
            passed = now - self._at if self._at != float("-inf") else 0.0
            self._tokens, self._at = min(self._burst, self._tokens + passed / self._refill), now


@dataclass
class _Similar:
    """The events of one kind: those that differ only in their messages."""

    messages: set[str] = field(default_factory=set)
    last: float = float("-inf")
    combined: Event | None = None
    """The Event that combines them; None if they are not combined yet."""


class EventCorrelator:
    """Returns the Event to write for each event that happens."""

    def __init__(self) -> None:
        """Begin without events."""
        self._similar: Recent[tuple[str, ...], _Similar] = Recent(KEPT, _Similar)
        self._limits: Recent[tuple[str, ...], TokenBucket] = Recent(KEPT, lambda: TokenBucket(BURST, REFILL_SECONDS))

    def correlate(self, event: Event, now: float, at: datetime) -> Event | None:
        """Return the Event to write after `event` has happened, for the first time or again; None to write none.

        `now` is a steady time in seconds, and `at` the same moment by the calendar. An event that is not written is
        counted as well.
        """
        about = event.subject
        one = (about.kind, about.namespace, about.name, about.uid)
        similar = self._similar.of((*one, event.type, event.reason))
        written = self._combined(similar, event, now, at)
        return written if self._limits.of(one).take(now) else None

    def _combined(self, similar: _Similar, event: Event, now: float, at: datetime) -> Event:
        if now - similar.last > SIMILAR_SECONDS:
            similar.messages = set()
        similar.messages.add(event.message)
        similar.last = now
        if len(similar.messages) < SIMILAR:
            return event
        similar.messages.discard(event.message)
        before = similar.combined
        similar.combined = replace(
            event,
            message=f"{COMBINED}{event.message}",
            first=before.first if before is not None else at,
            last=at,
            count=before.count + 1 if before is not None else 1,
        )
        return similar.combined
