"""First steps, each followed by a start ahead: the state of both in this worker (`activities.pipelining`)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from syncpod.messages.identity import PodRef
from syncpod.messages.steps import StartContainer, StepResult

REMEMBERED = 1_000
"""The most first steps that are kept; the least recently used one is dropped first, and its start ahead then does not
begin."""
KEPT_SECONDS = 10.0
"""How long a first step's result is kept for a start ahead that has not come yet: the pod may change meanwhile."""


@dataclass(frozen=True)
class Failed:
    """The failure of a first step, as far as the start ahead needs it.

    The error itself is not kept: its traceback holds all that the step had, such as its requests to the runtime.
    """

    why: str
    is_tried_again: bool


class FirstAttempt:
    """An attempt of a first step, as the start ahead sees it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
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


class FirstStep:
    """A first step, and the start ahead that follows it."""

    def __init__(self) -> None:
        self.attempt: FirstAttempt | None = None
        """The newest attempt in this worker; None if none has begun here."""
        self.came = asyncio.Event()
        """Set once an attempt has begun here."""
        self.ahead: StartContainer | None = None
        """The start ahead, once it has begun here."""
        self.ahead_is_over = asyncio.Event()
        """Set once an attempt of the start ahead has ended here; cleared when one begins."""
        self.is_free = asyncio.Event()
        """Cleared while the first step keeps back its result."""
        self.is_free.set()

    def begin(self) -> FirstAttempt:
        """Begin an attempt of the first step."""
        self.attempt = FirstAttempt()
        self.came.set()
        return self.attempt

    def begin_ahead(self, start: StartContainer) -> None:
        """Note that an attempt of the start ahead begins."""
        self.ahead = start
        self.ahead_is_over.clear()


class FirstSteps:
    """The first steps of a worker, each by its pod and its fence."""

    def __init__(self) -> None:
        self._steps: OrderedDict[tuple[str, str, int], FirstStep] = OrderedDict()

    def of(self, ref: PodRef, fence: int) -> FirstStep:
        """Return the first step with this fence."""
        key = (ref.uid, ref.incarnation, fence)
        step = self._steps.setdefault(key, FirstStep())
        self._steps.move_to_end(key)
        while len(self._steps) > REMEMBERED:
            self._steps.popitem(last=False)
        return step

    def forget_soon(self, ref: PodRef, fence: int) -> None:
        """Forget a first step after KEPT_SECONDS: it or its start ahead has ended, and the other one may never come."""
        key = (ref.uid, ref.incarnation, fence)
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._drop, key, self._steps.get(key))

    def _drop(self, key: tuple[str, str, int], step: FirstStep | None) -> None:
        # An attempt that is under way forgets the step itself.
        is_over = step is None or step.attempt is None or step.attempt.end.done()
        if is_over and self._steps.get(key) is step:
            self._steps.pop(key, None)

    def forget(self, ref: PodRef, fence: int) -> None:
        """Forget a first step that is over, and whose start ahead is over too."""
        self._steps.pop((ref.uid, ref.incarnation, fence), None)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
