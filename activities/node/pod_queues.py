"""Queues: a limited number of pods start, or end, at the same time on a node; the others wait in order.

If many pods started at once, each would make so little progress that their timeouts would pass.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from activities.node.clock import monotonic
from activities.node.fences import Holder

HELD_SECONDS = 5.0
"""How long a step keeps its place. A step that takes longer is waiting for something and uses little CPU, so another
pod gets its place while it goes on."""
REMEMBERED_SECONDS = 60.0
"""How long a pod keeps its rank after it has left the queue, so that its next step comes before later pods."""
LET_PASS = 256
"""How many later pods may overtake a step that can wait. The number is large, but the step's turn always comes."""


class PodQueue:
    """A number of places, and the pods that wait for one, in the order in which they first came."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._entries = itertools.count()
        self._came: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def came(self, uid: str) -> int:
        """Return a pod's number in the order of arrival; it keeps its number if it was here a moment ago."""
        now = monotonic()
        while self._came and now - next(iter(self._came.values()))[1] > REMEMBERED_SECONDS:
            self._came.popitem(last=False)
        number, _ = self._came.get(uid) or (next(self._numbers), now)
        self._came[uid] = (number, now)
        self._came.move_to_end(uid)
        return number

    def lets_pass(self) -> int:
        """Return the number of a step that can wait: pods that wait now, and the next `LET_PASS`, come first."""
        return next(self._numbers) + LET_PASS + 1

    def ahead_of(self, number: int) -> int:
        """Return how many waiting pods come before the pod with this number."""
        return sum(1 for other, _, turn in self._waiting if other < number and not turn.done())

    async def enter(self, number: int) -> None:
        """Wait for a place, and take it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (number, next(self._entries), turn))
        self._call()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # the place was given to this step just now
            else:
                self._waiting = [entry for entry in self._waiting if entry[2] is not turn]
                heapq.heapify(self._waiting)
            raise

    def leave(self) -> None:
        """Give a place back."""
        self._free += 1
        self._call()

    def _call(self) -> None:
        while self._free and self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self._free -= 1
                turn.set_result(None)


class QueuePlace:
    """One step's place in a queue.

    It has no reference to the step, since the step refers to it. Such a cycle would stay in memory until the next
    garbage collection, minutes later, with everything that the step has read and raised.
    """

    def __init__(self, queue: PodQueue, uid: str, *, can_wait: bool = False) -> None:
        """Make a place for a step of the pod `uid`.

        If the step `can_wait`, the pods that already wait come first, and so do some later ones.
        """
        self._queue = queue
        self._number = queue.lets_pass() if can_wait else queue.came(uid)
        self._since = 0.0
        """The monotonic time at which the step began to wait; 0 if it does not wait."""
        self._waited = 0.0
        self._given_up: asyncio.TimerHandle | None = None

    @property
    def ahead(self) -> int | None:
        """How many other pods come first; None if the step does not wait."""
        return self._queue.ahead_of(self._number) if self._since else None

    @property
    def waited_seconds(self) -> float:
        """How long the step has stood in the queue."""
        return self._waited + (monotonic() - self._since if self._since else 0.0)

    @asynccontextmanager
    async def held(self, holder: Holder) -> AsyncIterator[None]:
        """Hold the place for the block, but no longer than HELD_SECONDS.

        `holder` ends the wait if it is asked to let go. Raises the errors of `holder.interruptible`.
        """
        await self._take(holder)
        try:
            yield
        finally:
            self._give_back()

    @asynccontextmanager
    async def aside(self, holder: Holder) -> AsyncIterator[None]:
        """Give the place to other pods for a block that only waits. After that, take one again, unless it failed."""
        self._give_back()
        yield
        await self._take(holder)

    async def _take(self, holder: Holder) -> None:
        self._since = monotonic()
        try:
            await holder.interruptible(self._queue.enter(self._number))
        finally:
            self._waited, self._since = self.waited_seconds, 0.0
        self._given_up = asyncio.get_running_loop().call_later(HELD_SECONDS, self._give_back)

    def _give_back(self) -> None:
        if self._given_up is not None:
            self._given_up.cancel()
            self._given_up = None
            self._queue.leave()
