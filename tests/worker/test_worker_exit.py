"""A worker ends cleanly on request, and reports an error if it ends for another reason."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest
from temporalio.worker import Worker

from syncpod.agent.agent import Agent
from syncpod.settings.node import node_settings
from syncpod.settings.worker_record import WorkerRecord
from syncpod.worker.serving import run


class Parts:
    """A worker and an agent that serve until they are stopped."""

    def __init__(self) -> None:
        self.shut_down = asyncio.Event()
        self.closed = False
        self.lost: asyncio.Task[None] | None = None

    async def run(self) -> None:
        await self.shut_down.wait()

    async def shutdown(self) -> None:
        self.shut_down.set()

    async def close(self) -> None:
        self.closed = True


class Watching(Parts):
    """An agent; with `loses`, it awaits a cancelled task."""

    loses = False

    async def boot(self) -> None:
        return

    async def run(self) -> None:
        if self.loses:
            lost = asyncio.create_task(asyncio.sleep(3600))
            lost.cancel()
            await lost
        await super().run()


async def end(agent: Watching, tmp_path: Path, stop: asyncio.Event) -> None:
    """Run both until they have ended."""
    settings = node_settings({}, state_dir=str(tmp_path), node="n1")
    record = WorkerRecord(
        pid=1, identity="n1/m/1", node="n1", endpoint="", runtime="", address="", namespace="", task_queue="", boot=1
    )
    await run(cast(Worker, Parts()), cast(Agent, agent), record, settings, stop)


async def test_an_agent_that_ends_by_itself_is_reported_as_a_defect(tmp_path: Path) -> None:
    agent = Watching()
    agent.loses = True
    with pytest.raises(RuntimeError, match="has ended unexpectedly"):
        await end(agent, tmp_path, asyncio.Event())
    assert agent.closed


async def test_a_requested_shutdown_reports_nothing(tmp_path: Path) -> None:
    agent, stop = Watching(), asyncio.Event()
    stop.set()
    await end(agent, tmp_path, stop)
    assert agent.closed
