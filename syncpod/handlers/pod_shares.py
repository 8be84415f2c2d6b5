"""Threads for work whose length a pod decides: each pod has only its share of them, and so delays no other pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

_T = TypeVar("_T")


class Start(Protocol):
    """Runs work in a thread."""

    def __call__(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        """Return a future for the result."""


class PodShares:
    """The shares of all pods of a node in some threads. All methods belong to one event loop."""

    def __init__(self, of_a_pod: int, start: Start) -> None:
        """Run work by `start`, at most `of_a_pod` pieces of one pod at the same time."""
        self._of_a_pod, self._start = of_a_pod, start
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """Each pod's free places, by UID. A pod has an entry while a call of it waits or runs."""

    async def run(self, uid: str, work: Callable[[], _T]) -> _T:
        """Run `work` in a thread once the pod has a free place; return its result, or raise its error.

        Cancelling does not stop the thread, which keeps the pod's place until it ends.
        """
        turn = self._turns.setdefault(uid, asyncio.Semaphore(self._of_a_pod))
        await turn.acquire()
        try:
            running = self._start(work)
        except BaseException:
            turn.release()
            raise
        running.add_done_callback(partial(_ended, turn))
        return await asyncio.shield(running)


def _ended(turn: asyncio.Semaphore, running: asyncio.Future[Any]) -> None:
    turn.release()
    if not running.cancelled():
        running.exception()  # this keeps asyncio from logging the error if the caller was cancelled
