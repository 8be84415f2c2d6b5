"""Keeps many deadlines in a heap, with a single timer of the event loop.

Deadlines use the wall clock, because they are also written to disk, for the next server.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Final

_LOOKS_EVERY_SECONDS: Final = 60.0
"""The longest single wait, after which a change of the clock is noticed."""
_SWEPT_ABOVE: Final = 64


class Timer:
    """One deadline, until it has passed or is cancelled."""

    __slots__ = ("_order", "callback", "when")

    def __init__(self, when: int, order: int, callback: Callable[[], None]) -> None:
        """Wait for `when`, in nanoseconds since the epoch; `order` breaks ties."""
        self.when = when
        self._order = order
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self._order) < (other.when, other._order)


class Timers:
    """Calls back at deadlines, in their order. All methods belong to one event loop, and return at once."""

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        """Use `clock`, in nanoseconds since the epoch."""
        self._clock = clock
        self._heap: list[Timer] = []
        self._orders = itertools.count()
        self._cancelled = 0
        self._armed: asyncio.TimerHandle | None = None
        self._armed_for = 0

    def at(self, when: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` from the event loop once `when` has passed, and never from within this call."""
        timer = Timer(when, next(self._orders), callback)
        heapq.heappush(self._heap, timer)
        self._arm()
        return timer

    def cancel(self, timer: Timer) -> None:
        """Cancel a deadline. Does nothing if it has passed."""
        if timer.callback is None:
            return
        timer.callback = None
        self._cancelled += 1
        if self._cancelled > _SWEPT_ABOVE and 2 * self._cancelled > len(self._heap):
            self._heap = [timer for timer in self._heap if timer.callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def close(self) -> None:
        """Cancel all."""
        self._heap.clear()
        self._cancelled = 0
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def _arm(self) -> None:
        """Make the loop wake us at the first deadline."""
        if not self._heap or (self._armed is not None and self._armed_for <= self._heap[0].when):
            return
        if self._armed is not None:
            self._armed.cancel()
        self._armed_for = self._heap[0].when
        wait = min(max(0, self._armed_for - self._clock()) / 1e9, _LOOKS_EVERY_SECONDS)
        self._armed = asyncio.get_running_loop().call_later(wait, self._wake)

    def _wake(self) -> None:
        self._armed = None
        now = self._clock()
        while self._heap and self._heap[0].when <= now:
            timer = heapq.heappop(self._heap)
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._cancelled -= 1
            else:
                callback()
        self._arm()
