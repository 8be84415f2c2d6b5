"""Virtual time: due events run in order, and nothing waits."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""The start time of every simulation."""


@dataclass(order=True)
class Due:
    """A callback that is due at a time, and may be cancelled until then."""

    at: float
    order: int
    act: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        """Cancel the callback. Does nothing if it was already called."""
        self.act = None


class Clock:
    """Virtual time in seconds since :data:`EPOCH`; it only moves from one due callback to the next."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[Due] = []
        self._order = itertools.count()

    def after(self, seconds: float, act: Callable[[], None]) -> Due:
        """Call `act` after this many seconds; callbacks for the same time are called in the order of their requests."""
        # Rounded as in Temporal and runtimes, so that times never differ by less than their resolution.
        due = Due(round(self.now + max(0.0, seconds), 6), next(self._order), act)
        heapq.heappush(self._due, due)
        return due

    def run(self, until: float) -> bool:
        """Call what is due up to `until`; return whether nothing is left to call."""
        while self._due:
            if self._due[0].act is None:
                heapq.heappop(self._due)
                continue
            if self._due[0].at > until:
                self.now = until
                return False
            due = heapq.heappop(self._due)
            self.now, act = due.at, due.act
            due.act = None
            if act is not None:
                act()
        return True

    def text(self, at: float | None = None) -> str:
        """Return a time (by default the present) in the format RFC 3339, as in messages."""
        return moment(self.now if at is None else at).isoformat().replace("+00:00", "Z")


class WallClock(Clock):
    """Real time instead of virtual time: the running event loop calls what is due."""

    @property
    def now(self) -> float:
        """Seconds since :data:`EPOCH`."""
        return (datetime.now(UTC) - EPOCH).total_seconds()

    @now.setter
    def now(self, _: float) -> None:
        """Do nothing: real time passes by itself."""

    def after(self, seconds: float, act: Callable[[], None]) -> Due:
        """Call `act` after this many seconds."""
        due = Due(self.now + seconds, next(self._order), act)
        asyncio.get_running_loop().call_later(seconds, lambda: due.act() if due.act is not None else None)
        return due


def moment(at: float) -> datetime:
    """Return a time of a simulation as a datetime."""
    return EPOCH + timedelta(seconds=at)
