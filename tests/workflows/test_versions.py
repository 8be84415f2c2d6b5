"""A run keeps the version of its decisions, and continues as new with a newer version when it is idle.

Holds: Neither an upgrade nor a downgrade touches a container.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.version import BASELINE, DECISION_VERSION, build_id, decisions_of
from syncpod.messages.steps import PullImage, StartContainer
from syncpod.pod.wire import wire_name
from tests.replay.differences import Differs, replay
from tests.workflows.scripted import DIGEST, ScriptedNode, container, phase, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import manifest
from workflows.pod import decide, start
from workflows.pod.decision import Decision
from workflows.pod.state import PodState
from workflows.pod.workflow import PodWorkflow

NEWER = DECISION_VERSION + 1


@contextlib.asynccontextmanager
async def served(client: Client, node: ScriptedNode, version: int, patch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """A worker with this version of decisions and without a cache, so that each task is a replay."""
    patch.setattr("syncpod.lifecycle.version.DECISION_VERSION", version)
    async with Worker(
        client,
        task_queue=node.queue,
        workflows=[PodWorkflow],
        activities=node.activities(),
        workflow_runner=UnsandboxedWorkflowRunner(),  # so that the patched version is the workflow's
        build_id=build_id("syncpod-test", DIGEST),
        max_cached_workflows=0,
    ):
        yield


async def newest_run(client: Client, handle: WorkflowHandle[Any, Any]) -> str:
    run: str = (await client.get_workflow_handle(handle.id).describe()).run_id
    return run


async def another_run(client: Client, handle: WorkflowHandle[Any, Any], than: str) -> str:
    """Wait until the pod's workflow has another run."""
    async with asyncio.timeout(60):
        while True:
            run = await newest_run(client, handle)
            if run != than:
                return run
            await asyncio.sleep(0.05)


async def test_newer_decisions_renew_a_run_once_and_an_older_worker_takes_it_over(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = ScriptedNode()
    document = manifest()
    document["metadata"]["annotations"] = {"syncpod.dev/restart-limit": "1"}
    async with served(client, node, DECISION_VERSION, monkeypatch):
        first = await start_pod(client, node, document)
        handle = client.get_workflow_handle(first.id)
        uid = (await until(handle, lambda pod: phase(pod) == "Running"))["metadata"]["uid"]
        begun = await newest_run(client, handle)
        await handle.signal("pleg", {})
        await node.tell(handle, await node.exits(uid, "web", 1))
        await until(handle, lambda pod: container(pod, "web")["restartCount"] == 1)
        assert await newest_run(client, handle) == begun, "this worker has no newer decisions than the run"

    async with served(client, node, NEWER, monkeypatch):
        await query_pod(handle)
        assert await newest_run(client, handle) == begun, "not before the agent has spoken: it replays as it was begun"
        await handle.signal("pleg", {})
        renewed = await another_run(client, handle, begun)
        await handle.signal("pleg", {})
        await until(handle, lambda pod: phase(pod) == "Running")
        assert await newest_run(client, handle) == renewed, "once is enough"
        await handle.signal("renew", {})
        fresh = await another_run(client, handle, renewed)

    async with served(client, node, DECISION_VERSION, monkeypatch):
        await handle.signal("pleg", {})
        await node.tell(handle, await node.exits(uid, "web", 1))
        held = "RestartLimitReached"
        await until(handle, lambda pod: container(pod, "web")["state"].get("waiting", {}).get("reason") == held)
        assert await newest_run(client, handle) == fresh
    assert node.steps(uid) == ["create_sandbox", "start_container web", "start_container web"]
    for run in (begun, renewed, fresh):
        history = await client.get_workflow_handle(handle.id, run_id=run).fetch_history()
        assert EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED not in {event.event_type for event in history.events}


def test_a_build_id_contains_the_decision_version() -> None:
    assert build_id("syncpod-1.2.3", "0123456789ab") == f"syncpod-1.2.3+decisions.{DECISION_VERSION}.0123456789ab"
    assert decisions_of(build_id("syncpod-1.2.3+local.5", DIGEST)) == DECISION_VERSION


@pytest.mark.parametrize("other", ["", "syncpod-1.2.3", "syncpod-0.1.0+decisions.2", "syncpod+decisions.2.short"])
def test_an_unreleased_build_id_has_no_decision_version(other: str) -> None:
    assert decisions_of(other) == 0


# --- a change of decisions, from one version to the next: docs/upgrading.md explains it -------------------------------


def plant_a_newer_version(patch: pytest.MonkeyPatch, *, is_guarded: bool = True) -> None:
    """Change this tree to pull an image for each restart; if `is_guarded`, only in runs with the newer decisions."""
    decides = decide.next_step

    def next_step(state: PodState, now: datetime, **more: Any) -> Decision:
        decision = decides(state, now, **more)
        step = decision.step
        if is_guarded and state.decision_version < NEWER:
            return decision
        if step is None or not isinstance(step.input, StartContainer) or not step.input.restart:
            return decision
        if state.pulled.get(step.container) == step.input.restart:
            return decision
        pull = PullImage(ref=state.ref, pod=state.pod, container=step.container)
        return replace(decision, step=replace(step, name=StepName.PULL_IMAGE, input=pull, key="image/x"))

    patch.setattr(decide, "next_step", next_step)


async def test_a_run_keeps_its_older_decisions_and_the_run_that_follows_has_the_newer_ones(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = ScriptedNode()
    async with served(client, node, DECISION_VERSION, monkeypatch):
        first = await start_pod(client, node, manifest())
        handle = client.get_workflow_handle(first.id)
        uid = (await until(handle, lambda pod: phase(pod) == "Running"))["metadata"]["uid"]
        await node.tell(handle, await node.exits(uid, "web", 1))
        await until(handle, lambda pod: container(pod, "web")["restartCount"] == 1)
        older = await newest_run(client, handle)

    with monkeypatch.context() as planting:
        plant_a_newer_version(planting)
        async with served(client, node, NEWER, planting):
            await node.tell(handle, await node.exits(uid, "web", 1, ago=600.0))
            newer = await another_run(client, handle, older)
            await until(handle, lambda pod: container(pod, "web")["restartCount"] == 2)
            await node.tell(handle, await node.exits(uid, "web", 1, ago=600.0))
            await until(handle, lambda pod: container(pod, "web")["restartCount"] == 3)
        start, restart = ["create_sandbox", "start_container web"], ["start_container web"]
        assert node.steps(uid) == [*start, *restart, *restart, "pull_image web", *restart]

        histories = {
            run: await client.get_workflow_handle(handle.id, run_id=run).fetch_history() for run in (older, newer)
        }
        for run, history in histories.items():
            await replay(run, history)
    with monkeypatch.context() as planting:
        plant_a_newer_version(planting, is_guarded=False)
        with pytest.raises(
            Differs, match="in the history 'start container web, restart 1', with the code at hand 'pull image"
        ):
            await replay("older", histories[older])


# --- what is older than the first release -----------------------------------------------------------------------------


async def test_a_run_of_unknown_decisions_is_reported_and_its_pod_left_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = ScriptedNode()
    monkeypatch.setattr("syncpod.lifecycle.version.BASELINE", 0)
    async with served(client, node, 0, monkeypatch):
        handle = await start_pod(client, node, manifest())
        await until(handle, lambda pod: phase(pod) == "Running")
    steps = node.steps()

    monkeypatch.setattr("syncpod.lifecycle.version.BASELINE", BASELINE)
    async with served(client, node, DECISION_VERSION, monkeypatch):
        await handle.signal("pleg", {})
        async with asyncio.timeout(30):
            while not (told := [record for record in caplog.records if handle.id in record.getMessage()]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # nothing signals a new log record
    assert (told[0].levelname, told[0].exc_info is not None) == ("WARNING", True)
    assert "decisions: are of version 0, from before the first release" in caplog.text
    assert "Begin it anew: a pod by `syncpod adopt --force`" in caplog.text
    assert node.steps() == steps
    assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING


# If the workflow's initializer raises, the SDK has already made the coroutine of `run`, and drops it.
@pytest.mark.filterwarnings("ignore:coroutine '_WorkflowInstanceImpl._apply_initialize_workflow:RuntimeWarning")
async def test_a_worker_without_a_decision_version_starts_no_run(client: Client) -> None:
    node = ScriptedNode()
    async with Worker(
        client,
        task_queue=node.queue,
        workflows=[PodWorkflow],
        activities=node.activities(),
        workflow_runner=UnsandboxedWorkflowRunner(),
        build_id="syncpod-0.1.0+decisions.2",
    ):
        handle = await start_pod(client, node, manifest())
        with pytest.raises(WorkflowFailureError) as failure:
            await handle.result()
    gc.collect()  # here, not in another test
    assert isinstance(failure.value.cause, ApplicationError)
    assert failure.value.cause.non_retryable
    assert str(failure.value.cause).endswith("from before the first release; the oldest known are 1")


@pytest.mark.parametrize("mark", [{}, {"decisions": 0}, {"decisions": "1"}, {"decisions": None}, {"decisions": True}])
def test_a_snapshot_from_before_the_first_release_is_refused(mark: dict[str, Any]) -> None:
    state = filled()
    given = {"snapshot": start.snapshot(state), **mark}
    workflow_id = f"pod/default/{state.pod.metadata.name}"
    _, refusal = start.initial_state(given, workflow_id, NOON, uuid.uuid4, "node/n", decisions=DECISION_VERSION)
    assert refusal == ("snapshot: decisions: are of version 0, from before the first release; the oldest known are 1")


# --- snapshots of a newer worker --------------------------------------------------------------------------------------

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def filled() -> PodState:
    """A state with an example of every field that is carried from run to run."""
    document = manifest(initContainers=[{"name": "init", "image": "busybox:1", "restartPolicy": "Always"}])
    document["metadata"] |= {"uid": "7f3a", "labels": {"a": "b"}}
    workflow_id = f"pod/default/{document['metadata']['name']}"
    state, refusal = start.initial_state(
        {"pod": document}, workflow_id, NOON, lambda: uuid.UUID(int=1), "node/n", decisions=DECISION_VERSION
    )
    assert not refusal
    exited = {"id": "c1", "name": "web", "restart": 3, "exit_code": 1, "at": NOON, "cause": "a probe"}
    listed = {"id": "c1", "name": "web", "sandbox_id": "s1", "state": "exited", "created_at": NOON, "restart_count": 3}
    more = {
        "observed": {"uid": "7f3a", "sandboxes": [{"id": "s1", "state": "SANDBOX_READY"}], "containers": [listed]},
        "exits": [exited],
        "restarts": {"web": 3},
        "backoff": {"entries": {"crash/web/1": {"delay": 20, "last_update": NOON, "restarts": 2, "counted": "c1"}}},
        "restart_all": {"number": 2, "cause": "web exited", "at": NOON, "removed": ["c0"], "exit_code": 42},
        "waiting": {"web": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "resize_pending": {"reason": "Deferred", "since": NOON},
        "deletion": {"requested_at": NOON, "grace_seconds": 30},
        "failure": {"reason": "Evicted", "message": "out"},
        "node": {"name": "n", "runtime": "containerd"},
        "probes": {"liveness": {"c1": "failure"}},
    }
    state = PodState.model_validate({**state.model_dump(), **more})
    state.event(NOON, "Warning", "BackOff", "Back-off restarting", "web")
    return state


def grown(model: Any, dumped: Any, extra: Any) -> Any:
    """Add an unknown field to a dumped model or record, and to every record in it."""
    if not isinstance(dumped, dict):
        return dumped
    wider = dict(dumped)
    names = type(model).model_fields if isinstance(model, BaseModel) else [each.name for each in fields(model)]
    for name in names:
        value = getattr(model, name)
        for key in {name, wire_name(name)} & set(dumped):
            wider[key] = grown_value(value, dumped[key], extra)
    return {**wider, "ofANewerVersion": extra, "of_a_newer_version": extra}


def grown_value(value: Any, dumped: Any, extra: Any) -> Any:
    if isinstance(value, BaseModel) or is_dataclass(value):
        return grown(value, dumped, extra)
    if isinstance(value, dict) and isinstance(dumped, dict):
        return {key: grown_value(value[key], each, extra) if key in value else each for key, each in dumped.items()}
    if isinstance(value, tuple) and isinstance(dumped, list) and len(value) == len(dumped):
        return [grown_value(one, each, extra) for one, each in zip(value, dumped, strict=True)]
    return dumped


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)


@given(JSON)
def test_unknown_fields_in_a_snapshot_are_ignored(extra: Any) -> None:
    state = filled()
    wider = json.loads(json.dumps(grown(state, start.snapshot(state), extra)))
    assert json.dumps(wider).count('"ofANewerVersion"') > 20, "in every record"
    workflow_id = f"pod/default/{state.pod.metadata.name}"
    read, refusal = start.initial_state(
        {"snapshot": wider, "decisions": NEWER},
        workflow_id,
        NOON,
        lambda: uuid.UUID(int=1),
        "node/n",
        decisions=DECISION_VERSION,
    )
    assert not refusal
    assert read == state
