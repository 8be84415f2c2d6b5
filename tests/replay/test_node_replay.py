"""What earlier workers wrote of nodes still replays."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from syncpod.temporal.plugin import syncpod_plugin
from tests.replay.record import TODAY
from tests.replay.record_node import HISTORIES, STORIES
from workflows.node import decide
from workflows.node.workflow import NodeWorkflow
from workflows.runner import workflow_runner


async def _replay(path: Path) -> None:
    plugin = syncpod_plugin(workflows=[NodeWorkflow], runner=workflow_runner())
    history = WorkflowHistory.from_json("recorded", await asyncio.to_thread(path.read_text))
    started = history.events[0].workflow_execution_started_event_attributes
    history = WorkflowHistory(started.workflow_id, history.events)
    await Replayer(workflows=[], plugins=[plugin]).replay_workflow(history)


@pytest.mark.parametrize(
    "recorded", sorted(HISTORIES.glob("*/*.json")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
async def test_a_recorded_history_of_a_node_replays(recorded: Path) -> None:
    await _replay(recorded)


async def test_a_step_that_the_node_no_longer_takes_fails_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "plan", lambda *_, **__: decide.Plan((), None))
    with pytest.raises(NondeterminismError):
        await _replay(HISTORIES / TODAY / "kept.json")


def test_every_node_story_has_a_history_of_the_current_decisions() -> None:
    recorded = {path.stem for path in (HISTORIES / TODAY).glob("*.json")}
    assert recorded == {story.__name__ for story in STORIES}, "python -m tests.replay.record_node"
