"""The watchdog reports a stalled event loop with its stack, but not a loop that merely gets no CPU.

Holds: A stalled event loop is reported with its stack.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from syncpod.agent.loop_watchdog import LoopWatchdog, doing, held_up_seconds
from syncpod.api.listed_node import ListedNode
from syncpod.api.views.node_description import describe
from syncpod.messages.node import NodeView
from syncpod.node.loop_stalls import LoopStall, read_loop_stall, write_loop_stall
from tests.agent.waiting import until


def hang_until(told: Callable[[], bool]) -> None:
    """Block the loop's thread in a call, as a read from a disk does."""
    while not told():
        threading.Event().wait(0.005)


def compute_until(told: Callable[[], bool]) -> None:
    """Keep the loop's thread busy; the condition is checked rarely, so that its disk access does not matter."""
    while not told():
        sum(range(1_000_000))


@pytest.mark.parametrize(("stall", "does"), [(hang_until, "waits"), (compute_until, "computes")])
async def test_a_stalled_event_loop_is_reported_with_its_stack(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stall: Callable[[Callable[[], bool]], None], does: str
) -> None:
    caplog.set_level(logging.WARNING)
    with LoopWatchdog(tmp_path, beat=0.01, stalled=0.3):
        stall(lambda: read_loop_stall(tmp_path) is not None)
        during = read_loop_stall(tmp_path)
        await until(lambda: _is_over(tmp_path))
    assert during is not None and not during.over
    assert (during.doing, any(place.endswith(f" {stall.__name__}") for place in during.stack)) == (does, True)
    said = [each.getMessage() for each in caplog.records if "event loop" in each.getMessage()]
    assert "the event loop has stood still for" in said[0]
    assert "the event loop runs again after" in said[-1]


def _is_over(state_dir: Path) -> bool:
    stall = read_loop_stall(state_dir)
    return stall is not None and stall.over


async def test_a_running_event_loop_is_not_reported_and_an_earlier_stall_is_cleared(tmp_path: Path) -> None:
    write_loop_stall(tmp_path, LoopStall(since=datetime.now(UTC), seconds=60))
    with LoopWatchdog(tmp_path, beat=0.001, stalled=5.0):
        for _ in range(50):
            await asyncio.sleep(0.001)
    assert read_loop_stall(tmp_path) is None


def test_a_busy_machine_is_not_reported_as_a_stall() -> None:
    """At load 40 on two cores the thread may wait for minutes; only the time in which it could have run counts."""
    assert held_up_seconds(silent=60.0, queued=57.0, late=0.0) == 3.0
    assert held_up_seconds(silent=60.0, queued=0.0, late=58.0) == 2.0
    assert held_up_seconds(silent=12.0, queued=20.0, late=0.0) == 0.0
    assert held_up_seconds(silent=60.0, queued=1.0, late=0.5) == 59.0
    assert (doing(10.0, 9.0), doing(10.0, 0.1)) == ("computes", "waits")


def test_the_node_description_shows_a_stall() -> None:
    now = datetime(2026, 11, 23, tzinfo=UTC)
    stall = LoopStall(
        since=now - timedelta(seconds=34), seconds=34, stack=("asyncio/events.py:80 _run", "x/y.py:1 read")
    )
    node = ListedNode("n1", NodeView(), current=False, heard=None, lives=False)
    lines = "\n".join(describe(replace(node, stall=stall), [], now))
    assert "Event Loop:" in lines and "has stood still for 34s, 34s ago: it waits" in lines
    assert lines.index("at x/y.py:1 read") < lines.index("at asyncio/events.py:80 _run")
    assert "Event Loop:" not in "\n".join(describe(node, [], now))
