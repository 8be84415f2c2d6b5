"""What earlier workers wrote still replays: each kind of pod has its recorded history."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from syncpod.plugin import syncpod_plugin
from syncpod.pod import PodInvalid, admit
from tests.replay.record import HISTORIES, STORIES
from workflows.pod import PodWorkflow
from workflows.runner import workflow_runner


@pytest.mark.parametrize("recorded", sorted(HISTORIES.glob("*.json")), ids=lambda path: path.stem)
async def test_a_recorded_history_replays(recorded: Path) -> None:
    text = await asyncio.to_thread(recorded.read_text)
    history = WorkflowHistory.from_json(f"recorded/{recorded.stem}", text)
    workflow_id = pod_id(history)
    plugin = syncpod_plugin(workflows=[PodWorkflow], runner=workflow_runner())
    replayer = Replayer(workflows=[], plugins=[plugin])
    await replayer.replay_workflow(WorkflowHistory(workflow_id, history.events))


def pod_id(history: WorkflowHistory) -> str:
    """The id the workflow ran under, which its pod's name is checked against."""
    started = history.events[0].workflow_execution_started_event_attributes
    return str(started.workflow_id)


def test_every_story_has_its_history() -> None:
    assert {path.stem for path in HISTORIES.glob("*.json")} == {story.__name__ for story in STORIES}


async def test_a_pod_that_an_earlier_version_took_is_not_refused_on_replay() -> None:
    text = await asyncio.to_thread((HISTORIES / "brought_up.json").read_text)
    history = WorkflowHistory.from_json("recorded/brought_up", text)
    payload = history.events[0].workflow_execution_started_event_attributes.input.payloads[0]
    given = json.loads(payload.data)
    given["pod"]["spec"]["ofAnEarlierVersion"] = "taken then"
    payload.data = json.dumps(given).encode()
    with pytest.raises(PodInvalid, match=r"spec\.ofAnEarlierVersion"):
        admit(given["pod"])
    replayer = Replayer(workflows=[], plugins=[syncpod_plugin(workflows=[PodWorkflow], runner=workflow_runner())])
    await replayer.replay_workflow(WorkflowHistory(pod_id(history), history.events))
