"""Waits for events in another task, another process or the server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager


async def until(condition: Callable[[], bool], *, patience: float = 60.0) -> None:
    """Wait until the condition holds; raises TimeoutError."""
    async with asyncio.timeout(patience):
        while not condition():  # noqa: ASYNC110  # what is waited for knows no event of ours
            await asyncio.sleep(0.01)


async def until_asked(question: Callable[[], Awaitable[bool]], *, patience: float = 60.0, pause: float = 0.05) -> None:
    """Wait until the awaited answer is true; raises TimeoutError."""
    async with asyncio.timeout(patience):
        while not await question():  # noqa: ASYNC110  # the other end tells nobody
            await asyncio.sleep(pause)


def pauses(first: float = 0.05, most: float = 0.3) -> Iterator[float]:
    """Seconds to pause between two looks, ever longer up to `most`: looking costs both ends, so a long wait has few."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 1.25, most)


@asynccontextmanager
async def turns_of_others() -> AsyncIterator[Callable[[], int]]:
    """Count the turns of another task of this loop during the block; yields a function that returns the count."""
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    try:
        yield lambda: turns
    finally:
        other.cancel()
