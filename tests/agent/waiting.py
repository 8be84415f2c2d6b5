"""Waits for what happens elsewhere: in another task, another process, the server."""

import asyncio
from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], bool], *, patience: float = 60.0) -> None:
    """Wait until the condition holds; raises TimeoutError."""
    async with asyncio.timeout(patience):
        while not condition():  # noqa: ASYNC110  # what is waited for knows no event of ours
            await asyncio.sleep(0.01)


async def until_asked(question: Callable[[], Awaitable[bool]], *, patience: float = 60.0, pause: float = 0.05) -> None:
    """Wait until the answer is yes; raises TimeoutError."""
    async with asyncio.timeout(patience):
        while not await question():  # noqa: ASYNC110  # the other end tells nobody
            await asyncio.sleep(pause)
