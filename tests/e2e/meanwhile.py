"""Stories that mostly wait: told all at once while a module's other tests run, each to be asked for by a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from tests.e2e.engine import EngineNode, Pods

Story = Callable[[Pods], Awaitable[None]]
Told = dict[str, asyncio.Task[None]]
"""The stories by the name of their function. Awaiting one waits for its end, and fails as it does."""


@contextlib.asynccontextmanager
async def meanwhile(engine: EngineNode, *stories: Story) -> AsyncIterator[Told]:
    """Begin each story with pods of its own. One that no test has asked for is broken off; all pods are deleted."""
    told = {_name(story): asyncio.ensure_future(_tell(engine, story)) for story in stories}
    try:
        yield told
    finally:
        for task in told.values():
            task.cancel()
        await asyncio.gather(*told.values(), return_exceptions=True)


async def _tell(engine: EngineNode, story: Story) -> None:
    pods = Pods(engine)
    try:
        await story(pods)
    finally:
        await pods.delete()


def _name(story: Story) -> str:
    return str((story.func if isinstance(story, partial) else story).__name__)
