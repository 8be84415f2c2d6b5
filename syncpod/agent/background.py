"""Background tasks that outlive their own failures."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

log = logging.getLogger(__name__)

RESTART_SECONDS = 30.0
"""Seconds between a background task's failure and its restart."""


async def keep_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run `run` until it returns; when it raises, log that and start it again.

    An OSError, such as too many open files, is logged without a traceback, since it is no defect.
    """
    while True:
        try:
            await run()
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # This may be a CancelledError although nobody cancelled this task: `run` awaited another task that was
            # cancelled.
            if isinstance(error, OSError) and error.errno:
                log.warning("%s failed; it starts again in %d s: %s", name, RESTART_SECONDS, error)
            else:
                log.exception("%s failed; it starts again in %d s", name, RESTART_SECONDS)
            await asyncio.sleep(RESTART_SECONDS)
        else:
            return


class LooseTasks:
    """Tasks that nobody awaits. Each is referenced until it ends; `close` cancels those that still run."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, doing: Coroutine[Any, Any, None], name: str) -> None:
        """Run `doing` as a task of this name. It must handle its own errors."""
        task = asyncio.create_task(doing, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel the tasks and wait until all of them have ended."""
        await cancel_all(self._tasks)


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks and wait until all of them have ended, however they end."""
    cancelled = tuple(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


async def until_one_fails(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until all tasks have ended, or one has failed; then cancel the rest, and wait for their end.

    Each task is cancelled only once, so that it has time to close. Raises the error of the first task that fails.
    """
    all_of_them = set(tasks)
    running = all_of_them
    try:
        while running:
            ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
    finally:
        await cancel_all(all_of_them)


async def until_due(times: Iterable[float], news: asyncio.Event) -> None:
    """Wait until the earliest of these monotonic times, or until `news` is set because the times have changed.

    Clears `news` first.
    """
    news.clear()
    due = min(times, default=None)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if due is None else max(0.0, due - time.monotonic())):
            await news.wait()
