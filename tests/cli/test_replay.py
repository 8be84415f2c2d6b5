"""`replay`: the decisions of a recorded run are made again by the current code.

Holds: A recorded history replays, and a step that would now differ is named.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from syncpod.lifecycle.actions import StepName
from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.cli.test_signed_node import run
from tests.runtimes.temporal import DevServer, temporal_program
from tests.workflows.scripted import in_another_run
from workflows.pod import decide

SHOULD_BE = "must be the history of a pod's or a node's run from its first event on"


async def made(syncpod: Command, on: tuple[str, str]) -> str:
    """Make a pod that has started."""
    name = fresh_name()
    applied = await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    assert applied.code == 0, applied.err
    return name


async def history_of(client: Client, name: str) -> dict[str, Any]:
    recorded = await client.get_workflow_handle(f"pod/default/{name}").fetch_history()
    return recorded.to_json_dict()


def started(history: dict[str, Any]) -> dict[str, Any]:
    """The event that started the container."""
    (event,) = (
        event
        for event in history["events"]
        if event.get("activityTaskScheduledEventAttributes", {}).get("activityType") == {"name": "start_container"}
    )
    return dict(event)


def plant_a_pull(patch: pytest.MonkeyPatch) -> None:
    """Change the current code, so that it pulls an image instead of starting a container."""
    decides = decide.next_step

    def next_step(*given: Any, **more: Any) -> Any:
        decision = decides(*given, **more)
        if decision.step is None or decision.step.name != StepName.START_CONTAINER:
            return decision
        return replace(decision, step=replace(decision.step, name=StepName.PULL_IMAGE))

    patch.setattr(decide, "next_step", next_step)


async def test_every_run_of_a_deleted_pod_replays_and_is_left_as_it_was(
    syncpod: Command, client: Client, on: tuple[str, str]
) -> None:
    name = await made(syncpod, on)
    handle = client.get_workflow_handle(f"pod/default/{name}")
    before = await history_of(client, name)
    running = await syncpod("replay", f"pod/{name}")
    first = before["events"][0]["workflowExecutionStartedEventAttributes"]["originalExecutionRunId"]
    same = f"events of run {first}: the code at hand makes the same decisions\n"
    assert (running.code, running.err) == (0, "")
    assert running.out.startswith(f"pod/default/{name}: replayed ") and running.out.endswith(same)
    mixed = await syncpod("replay", name, "node/nosuch")
    assert (mixed.code, mixed.out, mixed.err) == (2, running.out, 'syncpod: nodes "nosuch" not found\n')
    assert await history_of(client, name) == before
    await handle.signal("renew", {})
    second = await in_another_run(handle, first)
    assert (await syncpod("delete", name)).code == 0
    every = await syncpod("replay", name, "--all", "-o", "json")
    documents = json.loads(every.out)
    assert [each.pop("runId") for each in documents] == [second, first], "the newest first"
    assert all(each.pop("events") > 5 and "+decisions." in each.pop("recordedBy") for each in documents)
    assert documents == [{"workflowId": f"pod/default/{name}", "same": True, "difference": None}] * 2
    assert (await syncpod("replay", name, "--run-id", first)).out.endswith(same)


async def test_another_decision_is_named_with_its_event(
    syncpod: Command, client: Client, on: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await made(syncpod, on)
    assert (await syncpod("delete", name)).code == 0
    history = await history_of(client, name)
    plant_a_pull(monkeypatch)
    found = await syncpod("replay", name)
    at = started(history)["eventId"]
    said = "in the history 'start container app, restart 0', with the code at hand 'pull image app, restart 0'\n"
    assert (found.code, found.err) == (1, "")
    assert found.out.endswith(f" differs at event {at}: {said}")
    absent = fresh_name()
    both = await syncpod("replay", name, absent, "-o", "json")
    assert (both.code, both.err) == (1, f'syncpod: pods "{absent}" not found in namespace default\n')
    difference = json.loads(both.out)[0]["difference"]
    assert "pull_image" in difference.pop("cause")
    assert difference == {
        "eventId": int(at),
        "history": "start container app, restart 0",
        "now": "pull image app, restart 0",
    }


async def test_a_file_is_replayed_and_a_changed_one_differs(
    syncpod: Command, temporal_server: DevServer, on: tuple[str, str], tmp_path: Path
) -> None:
    name, file = await made(syncpod, on), tmp_path / "history.json"
    show = ("workflow", "show", "--workflow-id", f"pod/default/{name}", "--output", "json")
    environ = {"TEMPORAL_ADDRESS": temporal_server.address, "TEMPORAL_CONFIG_FILE": os.devnull}
    shown = await asyncio.to_thread(run, str(temporal_program()), *show, environ=environ)
    history = json.loads(shown.out)
    await asyncio.to_thread(file.write_text, shown.out)
    same = await syncpod("replay", "-f", str(file))
    assert (same.code, same.err) == (0, "")
    assert f"pod/default/{name}: replayed {len(history['events'])} events" in same.out
    at = started(history)
    at["activityTaskScheduledEventAttributes"]["activityType"]["name"] = "kill_pod"
    changed = await syncpod("replay", "-f", "-", stdin=json.dumps(history))
    said = "in the history 'kill pod app, restart 0', with the code at hand 'start container app, restart 0'\n"
    assert changed.code == 1 and changed.out.endswith(f"differs at event {at['eventId']}: {said}")


async def test_a_history_from_before_the_first_release_is_refused(
    syncpod: Command, client: Client, on: tuple[str, str]
) -> None:
    name = await made(syncpod, on)
    history = await history_of(client, name)
    for event in history["events"]:
        completed = event.get("workflowTaskCompletedEventAttributes", {})
        for said in (completed, completed.get("workerVersion", {})):
            said.update({key: "syncpod-0.0.9" for key in ("binaryChecksum", "buildId") if key in said})
    refused = await syncpod("replay", "-f", "-", stdin=json.dumps(history))
    assert (refused.code, refused.out) == (2, "")
    assert "decisions: are of version 0, from before the first release; the oldest known are 1" in refused.err


async def test_a_run_that_has_decided_nothing_does_not_differ(syncpod: Command, client: Client) -> None:
    name = fresh_name()
    handle = await client.start_workflow("PodWorkflow", id=f"pod/default/{name}", task_queue=f"nobody/{name}")
    found = await syncpod("replay", name)
    await handle.terminate()
    assert (found.code, found.out.endswith("has decided nothing yet\n")) == (0, True), found


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        ((), "", "name a pod whose history Temporal has, or a file with one: -f FILE"),
        (("-f", "-", "web"), "", "name a pod whose history"),
        (("-f", "-"), "no JSON", f"standard input: {SHOULD_BE}"),
        (("-f", "-"), "[1]", SHOULD_BE),
        (("-f", "-"), '{"events": 5}', SHOULD_BE),
        (("-f", "-"), '{"events": []}', SHOULD_BE),
        (("-f", "-"), '{"kind": "Pod"}', SHOULD_BE),
        (("-f", "-"), '{"events": [{"eventId": "2", "eventType": "EVENT_TYPE_TIMER_FIRED"}]}', SHOULD_BE),
        (("-f", "/nowhere.json"), "", "/nowhere.json: No such file or directory"),
        (("-f", "-", "--all"), "", "--run-id, --all: a file has one run"),
        (("web", "--run-id", "7"), "", "--run-id: must be the id of a run"),
        (("a", "b", "--run-id", str(uuid.UUID(int=7))), "", "--run-id: a run is of one pod; name one"),
        (("web", "-o", "yaml"), "", "--output: must be json, not yaml"),
        (("node/nowhere",), "", 'nodes "nowhere" not found'),
        (("nowhere", "--run-id", str(uuid.UUID(int=7))), "", f"its workflow has no run {uuid.UUID(int=7)}"),
    ],
)
async def test_wrong_input_is_refused_in_a_sentence(
    syncpod: Command, arguments: tuple[str, ...], stdin: str, sentence: str
) -> None:
    refused = await syncpod("replay", *arguments, stdin=stdin)
    assert (refused.code, refused.out) == (2, "") and sentence in refused.err, refused
    assert refused.err.count("\n") == 1
