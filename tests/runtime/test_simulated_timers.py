"""One timer of the event loop serves any number of deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from syncpod.runtime.simulation.timers import Timers

MILLISECOND = 10**6


@pytest.fixture
def timers() -> Iterator[Timers]:
    made = Timers()
    yield made
    made.close()


async def test_timers_fire_in_order_and_equal_ones_in_order_of_creation(
    timers: Timers,
) -> None:
    came: list[str] = []
    done = asyncio.Event()
    now = time.time_ns()
    timers.at(now + 30 * MILLISECOND, done.set)
    timers.at(now + 20 * MILLISECOND, lambda: came.append("late"))
    timers.at(now + 10 * MILLISECOND, lambda: came.append("first"))
    timers.at(now + 10 * MILLISECOND, lambda: came.append("second"))
    timers.at(now - MILLISECOND, lambda: came.append("past"))
    assert came == []
    await done.wait()
    assert came == ["past", "first", "second", "late"]
    assert len(timers) == 0


async def test_a_cancelled_timer_never_fires(timers: Timers) -> None:
    came: list[int] = []
    done = asyncio.Event()
    now = time.time_ns()
    waiting = [timers.at(now + MILLISECOND, lambda number=number: came.append(number)) for number in range(3)]  # type: ignore[misc]
    timers.cancel(waiting[1])
    timers.cancel(waiting[1])
    timers.at(now + 2 * MILLISECOND, done.set)
    assert len(timers) == 3
    await done.wait()
    timers.cancel(waiting[0])
    assert (came, len(timers)) == ([0, 2], 0)


async def test_cancelled_distant_timers_take_no_memory(timers: Timers) -> None:
    far = time.time_ns() + 10**18
    kept = timers.at(far, lambda: None)
    for _ in range(10_000):
        timers.cancel(timers.at(far, lambda: None))
    assert len(timers) == 1
    assert len(timers._heap) < 200
    timers.cancel(kept)
    assert len(timers) == 0


async def test_a_timer_callback_may_create_another_timer(timers: Timers) -> None:
    done = asyncio.Event()

    def ask_for_another() -> None:
        timers.at(0, done.set)

    timers.at(0, ask_for_another)
    await done.wait()
