"""One step per pod at a time, and never an older one after a newer one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from syncpod.messages import PodRef

T = TypeVar("T")

REMEMBERED = 10_000
"""Incarnations whose newest fence is kept; the one longest unseen is dropped first. A fence guards against a stalled
try within one process (a new process has no elders), so it need not outlive its pod by long."""


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

    The workflow takes one step at a time, so a newer one that arrives while an elder still holds the pod means that
    Temporal has given the elder up: it stalled, and was timed out or cancelled without noticing. The elder is asked to
    let go, and is waited for: a call that it has already sent to the runtime ends before the next one looks.
    """

    def __init__(self) -> None:
        self._newest: OrderedDict[tuple[str, str], tuple[int, int]] = OrderedDict()
        self._pods: dict[str, _Turn] = {}

    @asynccontextmanager
    async def acting(self, ref: PodRef, fence: int, attempt: int, holder: Holder) -> AsyncIterator[None]:
        """Hold the pod for the block.

        `fence` is compared within an incarnation, and `attempt` (Temporal's, from 1) among the tries of one step; the
        pod itself is held by its UID, so that two incarnations of a static pod never act together. Raises StaleFence
        when a newer one has been seen, before or while waiting; what `holder.interruptible` raises, when that gives up.
        """
        mine = (fence, attempt)
        self._see(ref, mine)
        turn = self._pods.setdefault(ref.uid, _Turn())
        turn.wanted += 1
        try:
            if turn.holder is not None:
                turn.holder.supersede()
            await holder.interruptible(turn.lock.acquire())
            try:
                self._see(ref, mine)
                turn.holder = holder
                yield
            finally:
                turn.holder = None
                turn.lock.release()
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._pods[ref.uid]

    def _see(self, ref: PodRef, mine: tuple[int, int]) -> None:
        """Note a fence; raise StaleFence when a newer one is known."""
        key = (ref.uid, ref.incarnation)
        newest = self._newest.get(key, mine)
        if mine < newest:
            older, newer = f"try {mine[1]} of step {mine[0]}", f"try {newest[1]} of step {newest[0]}"
            raise StaleFence(f"{ref.namespace}/{ref.name}: {older} came after {newer}")
        self._newest[key] = mine
        self._newest.move_to_end(key)
        while len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)


class _Turn:
    """A pod's lock, who has it, and how many have it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.holder: Holder | None = None
        self.wanted = 0
