"""A starting worker waits for its runtime."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import pytest

from syncpod.agent.takeover import awaited_runtime
from syncpod.agent.takeover.awaited_runtime import AwaitedRuntime, RuntimeAway


def away_for(times: int) -> Callable[[], Awaitable[str]]:
    """Return a function that raises RuntimeAway this many times before it answers."""
    left = iter(range(times, 0, -1))

    async def ask() -> str:
        if (asks_left := next(left, 0)) > 0:
            raise RuntimeAway(f"away, {asks_left} times more")
        return "here"

    return ask


async def test_the_runtime_is_asked_until_it_answers_and_the_wait_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(awaited_runtime, "_ASK_EVERY", 0)
    awaited = AwaitedRuntime()
    with caplog.at_level(logging.WARNING):
        assert [await awaited.answer(away_for(3)), await awaited.answer(away_for(2))] == ["here", "here"]
    assert [line.message for line in caplog.records if line.name == awaited_runtime.log.name] == [
        "waiting up to 30 s for the runtime: away, 3 times more",
    ]


async def test_the_wait_for_the_runtime_times_out_with_its_last_error() -> None:
    with pytest.raises(RuntimeAway, match="away, 2 times more"):
        await AwaitedRuntime(0).answer(away_for(2))
