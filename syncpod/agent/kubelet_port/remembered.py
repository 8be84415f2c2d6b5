"""Answers of the API server that hold for a while, so that it is asked once for many requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """Answers by question. All methods belong to one event loop."""

    def __init__(self, most: int, at_once: int, clock: Callable[[], float]) -> None:
        """Keep `most` answers, the newest; ask for `at_once` at a time. `clock` is steady, in seconds."""
        self._most, self._clock = most, clock
        self._answers: dict[K, tuple[float, V]] = {}
        """Until when each holds, oldest first."""
        self._asking: dict[K, asyncio.Task[V]] = {}
        self._room = asyncio.Semaphore(at_once)

    async def answer(self, question: K, ask: Callable[[], Awaitable[V]], seconds: Callable[[V], float]) -> V:
        """Return the answer that holds, or ask, and keep the new one for so many seconds.

        A caller that comes meanwhile waits for the same answer. Raises what `ask` raises, which is not kept.
        """
        until, known = self._answers.get(question, (0.0, None))
        if known is not None and self._clock() < until:
            return known
        task = self._asking.get(question)
        if task is None:
            task = self._asking[question] = asyncio.create_task(self._ask(question, ask, seconds))
            task.add_done_callback(lambda done: self._asked(question, done))
        return await asyncio.shield(task)

    async def _ask(self, question: K, ask: Callable[[], Awaitable[V]], seconds: Callable[[V], float]) -> V:
        async with self._room:
            answer = await ask()
        self._answers.pop(question, None)
        self._answers[question] = self._clock() + seconds(answer), answer
        while len(self._answers) > self._most:
            del self._answers[next(iter(self._answers))]
        return answer

    def _asked(self, question: K, task: asyncio.Task[V]) -> None:
        del self._asking[question]
        if not task.cancelled():
            task.exception()  # mark it as retrieved: whoever asked may have gone
