"""Background tasks of the agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from syncpod.agent import background as module
from syncpod.agent.background import keep_running, until_due
from tests.agent.waiting import until


async def raises() -> None:
    raise ValueError("a defect")


async def awaits_a_cancelled_task() -> None:
    """A cancellation that nobody requested of the waiter: it would silently end the agent, and the worker."""
    given_up = asyncio.create_task(asyncio.sleep(3600))
    given_up.cancel()
    await given_up


@pytest.mark.parametrize("fails", [raises, awaits_a_cancelled_task])
async def test_a_failed_background_task_is_logged_and_restarted(
    fails: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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
