"""Who waits until a pod's step has asked the runtime, and until when."""

from __future__ import annotations

import asyncio

import pytest

from syncpod.agent import first_calls
from syncpod.agent.first_calls import FirstCalls, until_asked


async def test_a_step_that_asks_wakes_those_who_wait_for_its_pod_and_nobody_else() -> None:
    calls = FirstCalls()
    with calls.of("u1") as one, calls.of("u1") as other, calls.of("u2") as another:
        calls.asked("u1")
        await until_asked(one)
        await until_asked(other)
        assert not another.is_set()
    with calls.of("u1") as later:
        assert not later.is_set()


async def test_nobody_waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "PATIENCE_SECONDS", 0.01)
    with FirstCalls().of("u1") as never:
        await until_asked(never)
    assert not never.is_set()


async def test_what_is_asked_before_anybody_waits_is_known_when_they_do() -> None:
    """The start's answer may come after its pod's first step."""
    calls = FirstCalls()
    with calls.of("u1") as asked:
        calls.asked("u1")
        await asyncio.sleep(0)
        await until_asked(asked)
        assert asked.is_set()
