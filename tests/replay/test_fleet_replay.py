"""Recorded histories of a fleet's workflows still replay."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from temporalio import workflow

from syncpod.fleet.pod_names import PodNames
from syncpod.messages.remote_command import REMOTE_COMMAND_WORKFLOW
from syncpod.replay.history import read_history
from tests.replay.differences import Differs, replay
from tests.replay.record import TODAY
from tests.replay.record_fleet import HISTORIES, STORIES, WORKFLOWS
from workflows.fleet import workload_rollout
from workflows.fleet.node import FleetNodeWorkflow

RECORDED = sorted(HISTORIES.glob("*/*.json"))


async def _replay(path: Path) -> None:
    await replay(path.stem, read_history(await asyncio.to_thread(path.read_bytes)))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_a_recorded_history_of_a_fleet_replays(recorded: Path) -> None:
    await _replay(recorded)


async def test_a_pod_that_would_get_another_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are drawn in another order: the second free one comes first."""
    drawn = PodNames.free_numbers

    def swapped(names: PodNames, last: int, taken: Collection[int]) -> Iterator[int]:
        numbers = drawn(names, last, taken)
        while True:
            first = next(numbers)
            yield next(numbers)
            yield first

    monkeypatch.setattr(PodNames, "free_numbers", swapped)
    named = r"in the history '\w+ \w+ (deployment-\d).*', with the code at hand '\w+ \w+ (?!\1)deployment-\d"
    with pytest.raises(Differs, match=named):
        await _replay(HISTORIES / TODAY / "deployment-workload-1.json")


async def test_a_pod_that_would_not_be_removed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_rollout, "withdraw_all", lambda _state: None)
    with pytest.raises(Differs, match="in the history 'withdraw pods barepod, node barepod-"):
        await _replay(HISTORIES / TODAY / "bare_pod-workload-2.json")


async def test_a_signal_to_another_owner_is_named_although_the_sdk_does_not_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signals = FleetNodeWorkflow.signal_owner
    monkeypatch.setattr(FleetNodeWorkflow, "signal_owner", lambda node, owner, news: signals(node, f"{owner}-2", news))
    owner = "workload/Pod/default/barepod"
    named = (
        f"in the history 'signal pods_changed to {owner}', with the code at hand 'signal pods_changed to {owner}-2'$"
    )
    with pytest.raises(Differs, match=named):
        await _replay(HISTORIES / TODAY / "bare_pod-node-1.json")


def test_every_story_of_a_fleet_has_histories_of_the_current_decisions() -> None:
    recorded = {path.stem.partition("-")[0] for path in (HISTORIES / TODAY).glob("*.json")}
    assert recorded == {story.__name__ for story in STORIES}, "python -m tests.replay.record_fleet"


def test_every_workflow_of_a_fleet_is_in_a_history_and_each_that_lives_long_is_continued() -> None:
    first, later = set[str](), set[str]()
    for path in (HISTORIES / TODAY).glob("*.json"):
        started = read_history(path.read_bytes()).events[0].workflow_execution_started_event_attributes
        (later if started.continued_execution_run_id else first).add(started.workflow_type.name)
    assert first == {str(workflow._Definition.must_from_class(each).name) for each in WORKFLOWS}
    assert later == first - {REMOTE_COMMAND_WORKFLOW}
