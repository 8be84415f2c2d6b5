"""Fences: one step at a time acts in a pod, and never an older one after a newer one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from activities.node.clock import monotonic
from syncpod.messages.identity import PodRef

T = TypeVar("T")

REMEMBERED = 10_000
"""The most lives whose newest fences are kept; the least recently used one is dropped first. A fence guards
against a stalled try within one process (a new process has no older tries), so it need not outlive its pod by long.
"""
KEPT_SECONDS = 600.0
"""How long the fences of a life that is over are kept. A try that stalls for longer has long missed its heartbeats."""


@dataclass(frozen=True)
class FenceClaim:
    """A step's claim to act in a pod; claims are compared by age."""

    fence: int
    attempt: int
    """Temporal's number of the attempt, from 1."""
    scheduled: datetime
    """When Temporal first scheduled the step, by the server's clock."""
    follows: int = 0
    """The fence of the earlier step that this one follows, and for whose end it waits; 0 = none."""

    def is_older_than(self, other: FenceClaim) -> bool:
        """Return whether this step must not act once `other` has been seen.

        The fence decides, with one exception: an operator may reset a workflow to an earlier point, and its fences with
        it. So a step that was scheduled later than `other` is not older, whatever its fence.
        """
        if self.precedes(other):
            return False
        return (self.fence, self.attempt) < (other.fence, other.attempt) and self.scheduled <= other.scheduled

    def precedes(self, other: FenceClaim) -> bool:
        """Return whether `other` is the start that follows this step: neither of the two makes the other one let go."""
        return other.follows == self.fence != 0


class StaleFence(Exception):
    """A newer step of this pod has been seen, so the older one must not act."""


class Holder(Protocol):
    """A step or garbage collection that acts in a pod, and can be asked to let go."""

    def supersede(self) -> None:
        """Stop waiting: a newer step claims the pod. Calls that were sent to the runtime still run to their end."""

    async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, which is given up when the holder is cancelled or superseded."""


class Fences:
    """Lets one step at a time act for a pod, and refuses older ones.

    The workflow schedules one step that acts in a pod at a time. So if a newer step arrives while an older one holds
    the pod, Temporal has given the older one up: it stalled, and was timed out or cancelled without noticing. The older
    step is asked to let go, and the newer step waits for it: a call that was already sent to the runtime ends before
    the newer step looks.

    A start ahead may create its container beside the first step, which it follows (`join`). Any later step waits until
    both have let go. Only a retry of the first step does not wait for the start ahead.

    A pull makes nothing in the pod, and each container has a lane of its own for pulls. The same rules hold within a
    lane; between lanes nothing waits and nothing is refused.
    """

    def __init__(self) -> None:
        self._newest: OrderedDict[tuple[str, str], dict[str, FenceClaim]] = OrderedDict()
        """The newest claim of each lane, by the pod's UID and incarnation."""
        self._over: OrderedDict[tuple[str, str], float] = OrderedDict()
        """For each life whose fences are still kept, the monotonic time of its end; oldest first."""
        self._turns: dict[tuple[str, str], _Turn] = {}

    @asynccontextmanager
    async def acting(self, ref: PodRef, claim: FenceClaim, holder: Holder, *, lane: str = "") -> AsyncIterator[None]:
        """Hold the pod for the block; with a `lane`, hold only that lane beside the pod.

        Claims are compared within a life, but the pod is held by its UID, so that two lives of a static
        pod never act together. Raises StaleFence when a newer claim has been seen, before or while waiting, and the
        errors of `holder.interruptible`.
        """
        self._see(ref, claim, lane)
        turn = self._turns.setdefault((ref.uid, lane), _Turn())
        turn.wanted += 1
        try:
            if turn.holder is not None and not (turn.claim is not None and claim.precedes(turn.claim)):
                turn.holder.supersede()
            for each in turn.in_the_way(claim, holder):
                each.supersede()
            await holder.interruptible(turn.lock.acquire())
            try:
                self._see(ref, claim, lane)
                turn.holder, turn.claim = holder, claim
                while turn.in_the_way(claim, holder):
                    turn.one_left.clear()
                    await holder.interruptible(turn.one_left.wait())
                yield
            finally:
                turn.holder = turn.claim = None
                turn.lock.release()
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[ref.uid, lane]

    def join(self, ref: PodRef, claim: FenceClaim, holder: Holder) -> bool:
        """Let a start ahead act beside the first step, until the start calls `leave`; return whether it may.

        It may act while the first step holds the pod and no newer claim has been seen. A newer step asks it to let go,
        and waits until it has left.
        """
        turn = self._turns.get((ref.uid, ""))
        if turn is None or turn.claim is None or not turn.claim.precedes(claim):
            return False
        try:
            self._see(ref, claim, "")
        except StaleFence:
            return False
        turn.ahead[holder] = claim
        turn.wanted += 1
        return True

    def leave(self, ref: PodRef, holder: Holder) -> None:
        """End the presence of a start ahead beside the first step; do nothing if it has not joined."""
        turn = self._turns.get((ref.uid, ""))
        if turn is None or turn.ahead.pop(holder, None) is None:
            return
        turn.one_left.set()
        turn.wanted -= 1
        if not turn.wanted:
            del self._turns[ref.uid, ""]

    def forget_later(self, ref: PodRef) -> None:
        """Forget the fences of a life that is over, once no try of its steps can be stalled any more."""
        if (key := (ref.uid, ref.incarnation)) in self._newest:
            self._over.setdefault(key, monotonic())

    def _forget_old(self) -> None:
        while self._over and monotonic() - next(iter(self._over.values())) > KEPT_SECONDS:
            key, _ = self._over.popitem(last=False)
            self._newest.pop(key, None)

    @asynccontextmanager
    async def undisturbed(self, uid: str, holder: Holder) -> AsyncIterator[bool]:
        """Hold the pod for the block, unless a step has it or waits for it; yield whether the pod is held.

        This is for garbage collection between steps. The holder has no claim: it is never newer than a step, and no
        step is refused because of it. A step that arrives meanwhile asks `holder` to let go, and waits until it has.
        """
        key = (uid, "")
        if key in self._turns:
            yield False
            return
        turn = self._turns[key] = _Turn()
        turn.wanted += 1
        try:
            async with turn.lock:  # free, so this returns at once and no step gets in between
                turn.holder = holder
                try:
                    yield True
                finally:
                    turn.holder = None
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[key]

    def _see(self, ref: PodRef, claim: FenceClaim, lane: str) -> None:
        """Note a claim; raise StaleFence when a newer one is known."""
        self._forget_old()
        key = (ref.uid, ref.incarnation)
        lanes = self._newest.setdefault(key, {})
        newest = lanes.get(lane, claim)
        if claim.is_older_than(newest):
            older, newer = (f"try {each.attempt} of step {each.fence}" for each in (claim, newest))
            raise StaleFence(f"{ref.namespace}/{ref.name}: {older} came after {newer}")
        lanes[lane] = newest if claim.precedes(newest) else claim
        self._newest.move_to_end(key)
        while len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)


class _Turn:
    """The lock of a pod or of a lane beside it, its holder, and how many steps hold it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.holder: Holder | None = None
        self.claim: FenceClaim | None = None
        """The holder's claim; None for garbage collection, which has none."""
        self.ahead: dict[Holder, FenceClaim] = {}
        """The starts ahead that act beside the holder; the next step has to wait for them too."""
        self.one_left = asyncio.Event()
        self.wanted = 0

    def in_the_way(self, claim: FenceClaim, holder: Holder) -> list[Holder]:
        """Return the starts ahead that have to let go before `holder` acts: all but itself and those that follow it."""
        return [each for each, its in self.ahead.items() if each is not holder and not claim.precedes(its)]
