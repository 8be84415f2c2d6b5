"""Runs slow stories of a module concurrently, while its other tests run. A test asks for each story's result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from tests.e2e.engine import EngineNode, Pods

Story = Callable[[Pods], Awaitable[None]]
Told = dict[str, asyncio.Task[None]]
"""The stories' tasks by the name of their function; awaiting a task raises the story's error."""


@contextlib.asynccontextmanager
async def meanwhile(engine: EngineNode, *stories: Story) -> AsyncIterator[Told]:
    """Start each story with pods of its own. At the end, running stories are cancelled and all pods deleted."""
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
