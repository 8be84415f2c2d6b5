"""Background tasks of the agent."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable

import pytest

from syncpod.agent import background as module
from syncpod.agent.background import keep_running, until_due, until_one_fails
from tests.agent.waiting import until


async def raises() -> None:
    raise ValueError("a defect")


async def awaits_a_cancelled_task() -> None:
    """Awaits a cancelled task. The waiter itself is not cancelled, so it must not end silently with the agent."""
    given_up = asyncio.create_task(asyncio.sleep(3600))
    given_up.cancel()
    await given_up


async def finds_no_descriptor() -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/proc/self/statm")


async def waits_too_long() -> None:
    async with asyncio.timeout(0):
        await asyncio.sleep(3600)


@pytest.mark.parametrize(
    ("fails", "is_defect"),
    [(raises, True), (awaits_a_cancelled_task, True), (waits_too_long, True), (finds_no_descriptor, False)],
)
async def test_a_failed_background_task_is_logged_and_restarted(
    fails: Callable[[], Awaitable[None]],
    is_defect: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "RESTART_SECONDS", 0.001)
    begun = 0

    async def fails_twice() -> None:
        nonlocal begun
        begun += 1
        if begun <= 2:
            await fails()
        await asyncio.sleep(3600)

    running = asyncio.create_task(keep_running("housekeeping", fails_twice))
    await until(lambda: begun == 3 or running.done())
    assert not running.done()
    assert caplog.text.count("housekeeping failed") == 2
    assert ("Traceback" in caplog.text) == is_defect, "what the machine refuses is a sentence"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()


async def test_a_background_task_without_work_ends(caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(10):
        await keep_running("housekeeping", lambda: asyncio.sleep(0))
    assert caplog.text == ""


async def test_what_is_due_is_waited_for_unless_something_is_sooner() -> None:
    news = asyncio.Event()
    async with asyncio.timeout(10):
        await until_due([time.monotonic() - 1, time.monotonic() + 3600], news)
        waiting = asyncio.create_task(until_due([], news))
        await asyncio.sleep(0)
        assert not waiting.done()
        news.set()
        await waiting


async def test_a_task_that_is_cancelled_takes_its_time_to_close() -> None:
    """The others end at once. A second cancellation would cut off what it still does, as removing ended pods."""
    may, closed = asyncio.Event(), False

    async def closes_slowly() -> None:
        nonlocal closed
        try:
            await asyncio.sleep(3600)
        finally:
            await may.wait()
            closed = True

    tasks = [asyncio.create_task(closes_slowly()), asyncio.create_task(asyncio.sleep(3600))]
    serving = asyncio.create_task(until_one_fails(tasks))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    serving.cancel()
    await until(tasks[1].done)
    for _ in range(10):
        await asyncio.sleep(0)
    may.set()
    await asyncio.gather(serving, return_exceptions=True)
    assert closed


@pytest.mark.parametrize("fails", [raises, awaits_a_cancelled_task])
async def test_the_first_task_that_fails_ends_all(fails: Callable[[], Awaitable[None]]) -> None:
    async def ends() -> None:
        pass

    async def failing() -> None:
        await asyncio.sleep(0.001)
        await fails()

    tasks = [asyncio.create_task(each) for each in (asyncio.sleep(3600), ends(), failing())]
    with pytest.raises((ValueError, asyncio.CancelledError)):
        await until_one_fails(tasks)
    assert all(task.done() for task in tasks)
