"""A worker returns memory to the kernel after a peak, even while its node continues to work."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial

import pytest

from syncpod.agent.housekeeping.free_memory import GROWTH_BYTES, FreeMemory, resident_bytes
from tests.agent.waiting import until

MB = 1024**2


class Process:
    """A process whose memory gets a given size at each kind of reclaim."""

    def __init__(self, size: int, **after: int) -> None:
        self.size, self._after = size, after
        self.done: list[str] = []

    def act(self, name: str) -> None:
        self.done.append(name)
        self.size = self._after.get(name, self.size)

    def memory(self, rest: float = 0.0) -> FreeMemory:
        return FreeMemory(
            lambda: self.size, lambda: self.act("trim"), lambda: self.act("collect"), period=0.0, rest=rest
        )


async def grown(process: Process, to: int) -> list[str]:
    """Let the process grow, check ten times, and return the reclaims that were made."""
    memory = process.memory()
    process.size = to
    for _ in range(10):
        await memory.look()
    return process.done


async def test_what_is_free_is_given_back_once() -> None:
    assert await grown(Process(100 * MB, trim=110 * MB), 2_000 * MB) == ["trim"]


async def test_cycles_are_collected_only_if_that_is_not_enough() -> None:
    assert await grown(Process(100 * MB, trim=500 * MB), 2_000 * MB) == ["trim", "collect", "trim"]


def _needs(memory: FreeMemory, size: int) -> bool:
    """Whether this is the size that was found to be needed."""
    return memory._least == size


async def test_it_is_looked_at_again_and_again() -> None:
    process = Process(100 * MB)
    memory = process.memory()
    running = asyncio.create_task(memory.run())
    for size in (200 * MB, 400 * MB):
        process.done.clear()
        process.size = size
        await until(partial(_needs, memory, size))
        assert process.done == ["trim", "collect", "trim"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_growth_that_is_needed_costs_one_collection() -> None:
    assert await grown(Process(100 * MB), 200 * MB) == ["trim", "collect", "trim"]


@pytest.mark.parametrize(("before", "after"), [(100 * MB, 100 * MB + GROWTH_BYTES), (1_000 * MB, 1_100 * MB)])
async def test_a_little_growth_costs_nothing(before: int, after: int) -> None:
    assert not await grown(Process(before), after)


async def test_what_a_flood_has_left_is_given_back_once_the_node_is_at_rest() -> None:
    process = Process(100 * MB, collect=120 * MB)
    memory = process.memory()
    process.size = 200 * MB
    await memory.look()  # in the flood: it is needed from now on
    process.size = 112 * MB
    await memory.look()
    assert process.done == ["trim", "collect", "trim"]
    memory.worked()
    await memory.look()
    assert process.done[3:] == ["trim", "collect", "trim"]
    memory.worked()
    await memory.look()
    assert len(process.done) == 6  # what is left is needed


async def test_a_node_that_works_is_not_at_rest_and_one_that_rests_has_it_done_once() -> None:
    process = Process(100 * MB)
    memory = process.memory(rest=3600.0)
    memory.worked()
    process.size = 120 * MB
    await memory.look()
    assert not process.done
    memory = process.memory()
    process.size = 140 * MB
    await memory.look()
    assert not process.done
    memory.worked()
    for _ in range(3):
        await memory.look()
    assert process.done == ["trim", "collect", "trim"]


KEPT = """
import asyncio, gc
from syncpod.agent.housekeeping.free_memory import FreeMemory, resident_bytes
gc.disable()
memory = FreeMemory(resident_bytes)
before = resident_bytes()
held = []
for _ in range(3000):
    cycle = [b"x" * 100_000]
    cycle.append(cycle)
    held.append(bytes(2_000))
del cycle
grown = resident_bytes()
asyncio.run(memory.look())
print(before, grown, resident_bytes())
"""


def test_a_real_process_shrinks() -> None:
    ran = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=True)
    before, grown, after = map(int, ran.stdout.split())
    assert grown - before > 250 * MB
    assert after - before < 50 * MB


def test_a_process_knows_its_own_memory() -> None:
    assert 10 * MB < resident_bytes() < 100_000 * MB
