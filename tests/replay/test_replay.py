"""Recorded histories of pod workflows still replay; each kind of pod has one.

Holds: A recorded history replays, and a step that would now differ is named.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.common import SearchAttributeKey

from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.kubelet_version import KubeletVersion
from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages.step_table import STEPS
from syncpod.pod import PodInvalid, admit
from tests.replay.differences import Differs, replay
from tests.replay.record import HISTORIES, STORIES, TODAY
from workflows.pod import decide
from workflows.pod.decision import Decision

RECORDED = sorted(HISTORIES.glob("*/*.json"))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_a_recorded_history_replays(recorded: Path) -> None:
    await replay(recorded.stem, await read(recorded.stem, recorded.parent.name))


async def read(name: str, decisions: str = TODAY) -> WorkflowHistory:
    text = await asyncio.to_thread((HISTORIES / decisions / f"{name}.json").read_text)
    return WorkflowHistory.from_json(f"recorded/{name}", text)


def planted(monkeypatch: pytest.MonkeyPatch, change: Callable[[Decision], Decision]) -> None:
    """Change the decisions of this tree."""
    decides = decide.next_step
    monkeypatch.setattr(decide, "next_step", lambda *given, **more: change(decides(*given, **more)))


def of(decision: Decision, name: StepName, restart: int) -> bool:
    step = decision.step
    return step is not None and step.name == name and getattr(step.input, "restart", 0) == restart


async def test_a_changed_step_is_named_in_the_replay_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def another(decision: Decision) -> Decision:
        if decision.step is None or not of(decision, StepName.START_CONTAINER, 1):
            return decision
        return replace(decision, step=replace(decision.step, name=StepName.PULL_IMAGE))

    planted(monkeypatch, another)
    with pytest.raises(Differs) as differs:
        await replay("crash_loop", await read("crash_loop"))
    assert re.fullmatch(
        r"history crash_loop, event \d+: in the history 'start container web, restart 1', "
        r"with the code at hand 'pull image web, restart 1'.*",
        str(differs.value),
    )


async def test_a_step_that_differs_only_in_a_number_is_named_although_the_sdk_does_not_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def another(decision: Decision) -> Decision:
        if decision.step is None or not of(decision, StepName.START_CONTAINER, 2):
            return decision
        return replace(
            decision, step=replace(decision.step, input=decision.step.input.model_copy(update={"restart": 7}))
        )

    planted(monkeypatch, another)
    with pytest.raises(
        Differs, match="'start container web, restart 2', with the code at hand 'start container web, restart 7'"
    ):
        await replay("crash_loop", await read("crash_loop"))


async def test_a_step_that_is_no_longer_taken_is_named_in_the_replay_error(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, lambda decision: Decision() if of(decision, StepName.START_CONTAINER, 1) else decision)
    with pytest.raises(Differs) as differs:
        await replay("crash_loop", await read("crash_loop"))
    assert re.match(
        r"history crash_loop, event \d+: in the history 'start container web, restart 1', with the code at hand",
        str(differs.value),
    )


async def test_a_changed_wait_is_reported_with_its_event(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, lambda decision: replace(decision, holds=()))
    with pytest.raises(Differs, match=r"history crash_loop, event \d+: .*TimerStarted"):
        await replay("crash_loop", await read("crash_loop"))


async def test_an_exception_of_this_tree_is_reported_at_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(decision: Decision) -> Decision:
        if of(decision, StepName.START_CONTAINER, 1):
            raise KeyError("a defect")
        return decision

    planted(monkeypatch, defect)
    history = await read("crash_loop")
    with pytest.raises(Differs) as differs:
        await replay("crash_loop", history)
    named = re.match(
        r"history crash_loop, event (\d+): .* with the code at hand \"fail: KeyError: 'a defect'", str(differs.value)
    )
    assert named is not None, differs.value
    event = history.events[int(named[1]) - 1]
    assert event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    after = history.events[int(named[1])].activity_task_scheduled_event_attributes
    assert after.activity_type.name == "start_container" and b'"restart":1' in after.input.payloads[0].data


async def test_a_command_that_only_the_sdk_compares_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def another(decision: Decision) -> Decision:
        if of(decision, StepName.START_CONTAINER, 1):
            workflow.upsert_search_attributes([SearchAttributeKey.for_keyword("PodName").value_set("web")])
        return decision

    planted(monkeypatch, another)
    with pytest.raises(Differs) as differs:
        await replay("crash_loop", await read("crash_loop"))
    assert re.match(
        r"history crash_loop, event \d+: in the history 'start container web, restart 1', "
        r"with the code at hand 'change the search attributes'",
        str(differs.value),
    )


async def test_a_longer_wait_is_named_although_the_sdk_does_not_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    def longer(decision: Decision) -> Decision:
        more = timedelta(seconds=5)
        return replace(
            decision, holds=tuple(replace(each, until=each.until and each.until + more) for each in decision.holds)
        )

    planted(monkeypatch, longer)
    with pytest.raises(Differs) as differs:
        await replay("crash_loop", await read("crash_loop"))
    said = r".* event \d+: in the history 'wait (1[\d.]+) s', with the code at hand 'wait (1[\d.]+) s'"
    waits = re.fullmatch(said, str(differs.value))
    assert waits is not None, differs.value
    assert float(waits[2]) - float(waits[1]) == pytest.approx(5)


def test_every_story_has_a_history_of_each_version_that_knows_its_steps() -> None:
    stories = {story.__name__ for story in STORIES}
    for decisions in {TODAY, *(path.parent.name for path in RECORDED)}:
        recorded = {path.stem for path in (HISTORIES / decisions).glob("*.json")}
        newer = {story for story in stories - recorded if steps_of(story) - known_to(decisions)}
        assert stories - recorded == newer, f"{decisions}: python -m tests.replay.record"
        # Only earlier decisions have led to a life that no worker of today would live.
        assert decisions != TODAY or recorded == stories


def test_every_step_is_in_a_history_of_each_version_since_its_first() -> None:
    """A step that no history has could change without notice; one in an older history has a wrong first version."""
    for decisions in {path.parent.name for path in RECORDED}:
        taken = {name for path in (HISTORIES / decisions).glob("*.json") for name in steps_of(path.stem, decisions)}
        assert taken == known_to(decisions), f"{decisions}: python -m tests.replay.record, or `since` in the step's row"


def steps_of(story: str, decisions: str = TODAY) -> set[StepName]:
    """The steps in a story's history; empty if it is not recorded."""
    path = HISTORIES / decisions / f"{story}.json"
    events = json.loads(path.read_text())["events"] if path.exists() else []
    scheduled = (each.get("activityTaskScheduledEventAttributes") for each in events)
    return {StepName(each["activityType"]["name"]) for each in scheduled if each}


def known_to(decisions: str) -> set[StepName]:
    """The steps that decisions of this version can take."""
    return {name for name, spec in STEPS.items() if spec.since <= int(decisions.removeprefix("decisions-"))}


async def test_a_pod_admitted_by_an_earlier_version_is_not_refused_on_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    history = await read("brought_up")
    payload = history.events[0].workflow_execution_started_event_attributes.input.payloads[0]
    given = json.loads(payload.data)
    given["pod"]["spec"]["ofAnEarlierVersion"] = "taken then"
    payload.data = json.dumps(given).encode()
    with pytest.raises(PodInvalid, match=r"spec\.ofAnEarlierVersion"):
        admit(given["pod"])
    monkeypatch.setattr("syncpod.lifecycle.version.DECISION_VERSION", DECISION_VERSION + 1)
    await replay("brought_up", history)


async def test_a_run_of_earlier_decisions_follows_the_kubelet_that_it_was_begun_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For 1.36 a main container waits for its sidecar's back-off; for 1.37 it starts before."""
    history = await read("back_after_its_sidecar", "decisions-1")
    await replay("back_after_its_sidecar", history)
    monkeypatch.setattr("workflows.pod.state.followed_by", lambda decisions: KubeletVersion.V1_37)
    with pytest.raises(Differs, match="with the code at hand 'start container web, restart 1'"):
        await replay("back_after_its_sidecar", history)
