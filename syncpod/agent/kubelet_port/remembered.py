"""A cache for answers of the API server, so that one call serves many requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """Cached answers by question. All methods belong to one event loop."""

    def __init__(self, most: int, at_once: int, clock: Callable[[], float]) -> None:
        """Keep the newest `most` answers, and make `at_once` calls at a time. `clock` is monotonic, in seconds."""
        self._most, self._clock = most, clock
        self._answers: dict[K, tuple[float, V]] = {}
        """By question: the time until which its answer is valid, and the answer; the oldest first."""
        self._asking: dict[K, asyncio.Task[V]] = {}
        self._room = asyncio.Semaphore(at_once)

    async def answer(self, question: K, ask: Callable[[], Awaitable[V]], seconds: Callable[[V], float]) -> V:
        """Return the cached answer, or call `ask`, and cache its result for `seconds(result)`.

        Concurrent callers share one call. Raises the errors of `ask`, which are not cached.
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
            task.exception()  # mark it as retrieved, since all callers may have gone
