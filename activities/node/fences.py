"""One step that acts in a pod at a time, and never an older one after a newer one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from syncpod.messages import PodRef

T = TypeVar("T")

REMEMBERED = 10_000
"""Incarnations, and lanes beside them, whose newest fence is kept; the one longest unseen is dropped first. A fence
guards against a stalled try within one process (a new process has no elders), so it need not outlive its pod by long.
"""


@dataclass(frozen=True)
class Claim:
    """What a step that wants to act for a pod can show."""

    fence: int
    attempt: int
    """Temporal's count of the step's tries, from 1."""
    scheduled: datetime
    """When Temporal first scheduled the step, by the server's clock."""

    def is_older_than(self, other: Claim) -> bool:
        """Say whether this step must not act once `other` has been seen.

        The fence says so, but for one case: an operator may reset a workflow to an earlier point, and its fences with
        it. What was scheduled later than all that was seen is no straggler, whatever its fence.
        """
        return (self.fence, self.attempt) < (other.fence, other.attempt) and self.scheduled <= other.scheduled


class StaleFence(Exception):
    """A newer step of this pod has been seen; the one that asks must not act."""


class Holder(Protocol):
    """Whoever acts for a pod, and can be asked to let go."""

    def supersede(self) -> None:
        """Stop waiting: a newer step wants the pod. What has been sent to the runtime still runs to its end."""

    async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, which may be given up when the step is cancelled or superseded."""


class Fences:
    """Lets one step at a time act for a pod, and refuses older ones.

    The workflow takes one step that acts in a pod at a time, so a newer one that arrives while an elder still holds the
    pod means that Temporal has given the elder up: it stalled, and was timed out or cancelled without noticing. The
    elder is asked to let go, and is waited for: a call that it has already sent to the runtime ends before the next one
    looks.

    What makes nothing in the pod, a pull, has a lane of its own beside that, for each container one: within a lane all
    this holds as well, and between lanes nothing does, neither waiting nor refusing.
    """

    def __init__(self) -> None:
        self._newest: OrderedDict[tuple[str, str, str], Claim] = OrderedDict()
        self._turns: dict[tuple[str, str], _Turn] = {}

    @asynccontextmanager
    async def acting(self, ref: PodRef, claim: Claim, holder: Holder, *, lane: str = "") -> AsyncIterator[None]:
        """Hold the pod for the block; or, where a `lane` is named, only that lane beside the pod.

        Claims are compared within an incarnation; the pod itself is held by its UID, so that two incarnations of a
        static pod never act together. Raises StaleFence when a newer claim has been seen, before or while waiting;
        what `holder.interruptible` raises, when that gives up.
        """
        self._see(ref, claim, lane)
        turn = self._turns.setdefault((ref.uid, lane), _Turn())
        turn.wanted += 1
        try:
            if turn.holder is not None:
                turn.holder.supersede()
            await holder.interruptible(turn.lock.acquire())
            try:
                self._see(ref, claim, lane)
                turn.holder = holder
                yield
            finally:
                turn.holder = None
                turn.lock.release()
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[ref.uid, lane]

    @asynccontextmanager
    async def undisturbed(self, uid: str, holder: Holder) -> AsyncIterator[bool]:
        """Hold the pod for the block, unless a step has it or wants it now; yield whether it is held.

        For what is tidied up between steps. It has no claim: it is never newer than a step, and no step is refused for
        it. A step that comes meanwhile asks `holder` to let go, and waits until it has.
        """
        key = (uid, "")
        if key in self._turns:
            yield False
            return
        turn = self._turns[key] = _Turn()
        turn.wanted += 1
        try:
            async with turn.lock:  # nobody has it: no step comes between
                turn.holder = holder
                try:
                    yield True
                finally:
                    turn.holder = None
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[key]

    def _see(self, ref: PodRef, claim: Claim, lane: str) -> None:
        """Note a claim; raise StaleFence when a newer one is known."""
        key = (ref.uid, ref.incarnation, lane)
        newest = self._newest.get(key, claim)
        if claim.is_older_than(newest):
            older, newer = (f"try {each.attempt} of step {each.fence}" for each in (claim, newest))
            raise StaleFence(f"{ref.namespace}/{ref.name}: {older} came after {newer}")
        self._newest[key] = claim
        self._newest.move_to_end(key)
        while len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)


class _Turn:
    """The lock of a pod or of a lane beside it, who has it, and how many have it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.holder: Holder | None = None
        self.wanted = 0
