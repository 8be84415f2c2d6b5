"""A pending question of a fleet's workflow can be given up at any time, and the workflow no longer waits for it."""

from __future__ import annotations

import asyncio

import pytest

from workflows.fleet.open_requests import OpenRequests


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_question_that_is_given_up_is_over_even_if_it_has_not_begun_yet(turns: int) -> None:
    """A node that is back has workloads told of it in the task in which its run continues as new."""
    woken, asked = asyncio.Event(), False

    async def asking() -> None:
        nonlocal asked
        asked = True
        await asyncio.Event().wait()

    busy = OpenRequests(woken.set)
    busy.begin("room", asking())
    for _ in range(turns):
        await asyncio.sleep(0)
    busy.cancel("room")
    await asyncio.sleep(0)
    assert woken.is_set() and not busy and "room" not in busy
    assert asked == (turns > 0)
    busy.begin("room", asking())  # the name is free again
    await asyncio.sleep(0)
    assert "room" in busy and asked
    busy.cancel("room")
    await asyncio.sleep(0)
    assert not busy
