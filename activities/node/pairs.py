"""Pairs of steps: the state of the first one in this worker, and whether the second one is over."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from syncpod.messages.identity import PodRef
from syncpod.messages.steps import StartContainer, StepResult

REMEMBERED = 1_000
"""The most pairs that are kept; the least recently used one is dropped first, and its second step then does not
begin."""
KEPT_SECONDS = 10.0
"""How long a first step's result is kept for a second step that has not come yet: the pod may change meanwhile."""


@dataclass(frozen=True)
class Failed:
    """The failure of a first step, as far as the second one needs it.

    The error itself is not kept: its traceback holds all that the step had, such as its requests to the runtime.
    """

    why: str
    is_tried_again: bool


class FirstAttempt:
    """An attempt of a pair's first step, as the second step sees it."""

    def __init__(self, starts: tuple[str, ...]) -> None:
        loop = asyncio.get_running_loop()
        self.starts = starts
        """The names of the pod's containers, in the order of their starts."""
        self.end: asyncio.Future[StepResult | Failed] = loop.create_future()
        self.waits: asyncio.Future[None] = loop.create_future()
        """Done once the attempt only waits for the runtime."""
        self.finishes: asyncio.Future[None] = loop.create_future()
        """Done once the attempt has succeeded and only has to read the pod."""

    def mark_waiting(self) -> None:
        """Note that the attempt only waits for the runtime."""
        _set(self.waits)

    def mark_finishing(self) -> None:
        """Note that the attempt has succeeded and only has to read the pod."""
        _set(self.waits)
        _set(self.finishes)


class StepPair:
    """Two steps: the second one begins before the first one has ended, and waits for it."""

    def __init__(self) -> None:
        self.first: FirstAttempt | None = None
        """The first step's newest attempt in this worker; None if none has begun here."""
        self.came = asyncio.Event()
        """Set once an attempt of the first step has begun here."""
        self.second_is_over = asyncio.Event()
        """Set once an attempt of the second step has ended here; cleared when one begins."""
        self.second: StartContainer | None = None
        """The second step, once it has begun here."""
        self.first_is_free = asyncio.Event()
        """Cleared while the first step keeps back its result."""
        self.first_is_free.set()

    def begin_first(self, starts: tuple[str, ...]) -> FirstAttempt:
        """Begin an attempt of the first step; `starts` has the pod's containers, in the order of their starts."""
        self.first = FirstAttempt(starts)
        self.came.set()
        return self.first

    def begin_second(self, second: StartContainer) -> None:
        """Note that an attempt of the second step begins."""
        self.second = second
        self.second_is_over.clear()


class Pairs:
    """The pairs of a worker, each by its pod and the fence of its first step."""

    def __init__(self) -> None:
        self._pairs: OrderedDict[tuple[str, str, int], StepPair] = OrderedDict()

    def of(self, ref: PodRef, first_fence: int) -> StepPair:
        """Return the pair whose first step has this fence."""
        key = (ref.uid, ref.incarnation, first_fence)
        pair = self._pairs.setdefault(key, StepPair())
        self._pairs.move_to_end(key)
        while len(self._pairs) > REMEMBERED:
            self._pairs.popitem(last=False)
        return pair

    def forget_soon(self, ref: PodRef, first_fence: int) -> None:
        """Forget a pair after KEPT_SECONDS: one of its steps has ended, and the other may never come."""
        key = (ref.uid, ref.incarnation, first_fence)
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._drop, key, self._pairs.get(key))

    def _drop(self, key: tuple[str, str, int], pair: StepPair | None) -> None:
        is_over = pair is None or pair.first is None or pair.first.end.done()  # else the attempt under way forgets it
        if is_over and self._pairs.get(key) is pair:
            self._pairs.pop(key, None)

    def forget(self, ref: PodRef, first_fence: int) -> None:
        """Forget a pair both of whose steps are over."""
        self._pairs.pop((ref.uid, ref.incarnation, first_fence), None)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
