"""What runs beside the agent."""

from __future__ import annotations

import asyncio

import pytest

from syncpod.agent import agent as module
from syncpod.agent.agent import _keep_running
from tests.agent.waiting import until


async def test_its_failure_is_logged_and_it_begins_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_BEGIN_AGAIN_SECONDS", 0.001)
    begun = 0

    async def fails_twice() -> None:
        nonlocal begun
        begun += 1
        if begun <= 2:
            raise ValueError("a defect")
        await asyncio.sleep(3600)

    running = asyncio.create_task(_keep_running("housekeeping", fails_twice))
    await until(lambda: begun == 3)
    assert not running.done()
    assert caplog.text.count("housekeeping has failed") == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()


async def test_what_has_nothing_to_do_ends(caplog: pytest.LogCaptureFixture) -> None:
    await asyncio.wait_for(_keep_running("housekeeping", lambda: asyncio.sleep(0)), 10)
    assert caplog.text == ""
