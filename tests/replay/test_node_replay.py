"""Recorded histories of node workflows still replay."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from syncpod.replay.history import read_history
from tests.replay.differences import Differs, replay
from tests.replay.record import TODAY
from tests.replay.record_node import HISTORIES, STORIES
from workflows.node import decide


async def _replay(path: Path) -> None:
    await replay(path.stem, read_history(await asyncio.to_thread(path.read_bytes)))


@pytest.mark.parametrize(
    "recorded", sorted(HISTORIES.glob("*/*.json")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
async def test_a_recorded_history_of_a_node_replays(recorded: Path) -> None:
    await _replay(recorded)


async def test_a_step_that_the_node_no_longer_takes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "plan", lambda *_, **__: decide.Plan((), None))
    gone = r"event \d+: in the history 'apply pods job web', with the code at hand nothing more"
    with pytest.raises(Differs, match=gone):
        await _replay(HISTORIES / TODAY / "kept.json")


def test_every_node_story_has_a_history_of_the_current_decisions() -> None:
    recorded = {path.stem for path in (HISTORIES / TODAY).glob("*.json")}
    assert recorded == {story.__name__ for story in STORIES}, "python -m tests.replay.record_node"
