from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent import backoff_queue as module
from syncpod.agent.backoff_queue import BackoffQueue
from tests.agent.waiting import until


class Bell:
    """Records the signals; the first `out_of_reach` attempts fail."""

    def __init__(self) -> None:
        self.rung: list[tuple[str, str, int]] = []
        self.out_of_reach = 0

    async def ring(self, workflow_id: str, container: str, restart: int) -> bool:
        if self.out_of_reach:
            self.out_of_reach -= 1
            raise RPCError("no connection", RPCStatusCode.UNAVAILABLE, b"")
        self.rung.append((workflow_id, container, restart))
        return True


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
async def queue(bell: Bell) -> AsyncIterator[BackoffQueue]:
    made = BackoffQueue(bell.ring)
    yield made
    await made.close()


async def test_alarms_fire_in_order_of_their_times(queue: BackoffQueue, bell: Bell) -> None:
    queue.arm("pod/default/a", "web", 1, 0.06)
    queue.arm("pod/default/b", "web", 4, 0.03)
    queue.arm("pod/default/a", "log", 2, 0.0)
    await until(lambda: len(bell.rung) == 3)

    assert bell.rung == [("pod/default/a", "log", 2), ("pod/default/b", "web", 4), ("pod/default/a", "web", 1)]
    await until(lambda: len(queue) == 0)


async def test_an_alarm_never_fires_early(queue: BackoffQueue, bell: Bell) -> None:
    clock = asyncio.get_running_loop().time
    begun = clock()
    queue.arm("pod/default/a", "web", 1, 0.05)
    await until(lambda: bool(bell.rung))
    assert clock() - begun >= 0.05


async def test_arming_again_replaces_the_alarm_which_fires_once(queue: BackoffQueue, bell: Bell) -> None:
    queue.arm("pod/default/a", "web", 1, 0.0)
    queue.arm("pod/default/a", "web", 1, 0.02)
    queue.arm("pod/default/a", "web", 2, 0.01)
    assert len(queue) == 1
    await until(lambda: len(queue) == 0)
    assert bell.rung == [("pod/default/a", "web", 2)]


async def test_an_older_restart_does_not_replace_a_newer_ones_alarm(queue: BackoffQueue, bell: Bell) -> None:
    queue.arm("pod/default/a", "web", 7, 0.01)
    queue.arm("pod/default/a", "web", 6, 0.0)
    await until(lambda: len(queue) == 0)
    assert bell.rung == [("pod/default/a", "web", 7)]


async def test_an_alarm_is_retried_during_a_server_outage(
    queue: BackoffQueue, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", (0.001, 0.001))
    bell.out_of_reach = 5
    queue.arm("pod/default/a", "web", 1, 0.0)
    await until(lambda: bool(bell.rung))
    assert bell.out_of_reach == 0


async def test_an_alarm_is_given_up_after_a_long_outage_in_favour_of_the_workflows_timer(
    queue: BackoffQueue, bell: Bell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", (0.001, 0.001))
    monkeypatch.setattr(module, "GIVE_UP_SECONDS", 0.01)
    bell.out_of_reach = 1_000_000
    queue.arm("pod/default/a", "web", 1, 0.0)
    await until(lambda: len(queue) == 0)
    assert "back-off of web in pod/default/a is over, but its workflow cannot be signalled" in caplog.text


async def test_a_closed_queue_fires_no_alarms(bell: Bell) -> None:
    queue = BackoffQueue(bell.ring)
    queue.arm("pod/default/a", "web", 1, 0.0)
    queue.arm("pod/default/b", "web", 1, 0.01)
    await queue.close()
    later = BackoffQueue(bell.ring)
    later.arm("pod/default/c", "web", 1, 0.02)
    await until(lambda: bool(bell.rung))
    assert bell.rung == [("pod/default/c", "web", 1)]
    await later.close()


async def test_an_alarm_of_a_back_off_ended_early_does_not_fire_and_later_ones_do(
    queue: BackoffQueue, bell: Bell
) -> None:
    queue.arm("pod/default/a", "web", 1, 0.02)
    queue.arm("pod/default/a", "log", 3, 0.02)
    queue.disarm("pod/default/a", "web", 1)
    queue.disarm("pod/default/a", "log", 2)  # of an older restart: it comes late
    queue.disarm("pod/default/b", "web", 1)  # never armed
    assert len(queue) == 1
    await until(lambda: len(queue) == 0)

    assert bell.rung == [("pod/default/a", "log", 3)]
