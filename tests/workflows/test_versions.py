"""A run that was begun with older decisions goes on with them, and is renewed with newer ones when it is quiet."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from syncpod.lifecycle.version import DECISION_VERSION, build_id, decisions_of
from syncpod.pod.wire import wire_name
from tests.workflows.scripted import ScriptedNode, container, phase, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import manifest
from workflows.pod import start
from workflows.pod.state import PodState
from workflows.pod.workflow import PodWorkflow

NEWER = DECISION_VERSION + 1


@contextlib.asynccontextmanager
async def served(client: Client, node: ScriptedNode, version: int, patch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """A worker whose decisions have that version, and which remembers no run: each task is a replay."""
    patch.setattr("syncpod.lifecycle.version.DECISION_VERSION", version)
    async with Worker(
        client,
        task_queue=node.queue,
        workflows=[PodWorkflow],
        activities=node.activities(),
        workflow_runner=UnsandboxedWorkflowRunner(),  # so that the patched version is the workflow's
        build_id=build_id("syncpod-test"),
        max_cached_workflows=0,
    ):
        yield


async def newest_run(client: Client, handle: WorkflowHandle[Any, Any]) -> str:
    run: str = (await client.get_workflow_handle(handle.id).describe()).run_id
    return run


async def another_run(client: Client, handle: WorkflowHandle[Any, Any], than: str) -> str:
    """Wait for the pod's workflow to have another run."""
    async with asyncio.timeout(60):
        while True:
            run = await newest_run(client, handle)
            if run != than:
                return run
            await asyncio.sleep(0.05)


async def test_a_run_is_renewed_once_by_a_worker_with_newer_decisions_and_taken_over_by_an_older_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = ScriptedNode()
    document = manifest()
    document["metadata"]["annotations"] = {"syncpod.dev/restart-limit": "1"}
    said = {"decisionVersion": NEWER}
    async with served(client, node, DECISION_VERSION, monkeypatch):
        first = await start_pod(client, node, document)
        handle = client.get_workflow_handle(first.id)
        uid = (await until(handle, lambda pod: phase(pod) == "Running"))["metadata"]["uid"]
        begun = await newest_run(client, handle)
        await handle.signal("pleg", said)
        await node.tell(handle, node.exits(uid, "web", 1))
        await until(handle, lambda pod: container(pod, "web")["restartCount"] == 1)
        assert await newest_run(client, handle) == begun, "this worker has no newer decisions than the run"

    async with served(client, node, NEWER, monkeypatch):
        await query_pod(handle)
        assert await newest_run(client, handle) == begun, "not before the agent has spoken: it replays as it was begun"
        await handle.signal("pleg", said)
        renewed = await another_run(client, handle, begun)
        await handle.signal("pleg", said)
        await until(handle, lambda pod: phase(pod) == "Running")
        assert await newest_run(client, handle) == renewed, "once is enough"
        await handle.signal("renew", {})
        fresh = await another_run(client, handle, renewed)

    async with served(client, node, DECISION_VERSION, monkeypatch):
        await handle.signal("pleg", {"decisionVersion": DECISION_VERSION})
        await node.tell(handle, node.exits(uid, "web", 1))
        held = "RestartLimitReached"
        await until(handle, lambda pod: container(pod, "web")["state"].get("waiting", {}).get("reason") == held)
        assert await newest_run(client, handle) == fresh
    assert node.steps(uid) == ["create_sandbox", "start_container web", "start_container web"]
    for run in (begun, renewed, fresh):
        history = await client.get_workflow_handle(handle.id, run_id=run).fetch_history()
        assert EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED not in {event.event_type for event in history.events}


def test_a_build_id_says_the_version_of_its_decisions() -> None:
    assert decisions_of(build_id("syncpod-1.2.3+local.5")) == DECISION_VERSION
    assert decisions_of("syncpod-1.2.3") == decisions_of("") == 1, "the first ones did not say"


# --- snapshots of a newer worker --------------------------------------------------------------------------------------

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def filled() -> PodState:
    """A state with something of everything that crosses from run to run."""
    document = manifest(initContainers=[{"name": "init", "image": "busybox:1", "restartPolicy": "Always"}])
    document["metadata"] |= {"uid": "7f3a", "labels": {"a": "b"}}
    workflow_id = f"pod/default/{document['metadata']['name']}"
    state, refusal = start.begin(
        {"pod": document}, workflow_id, NOON, lambda: uuid.UUID(int=1), "node/n", replaying=False
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


def grown(model: BaseModel, dumped: Any, extra: Any) -> Any:
    """Add an unknown field to what a model was dumped as, and to every record in it."""
    if not isinstance(dumped, dict):
        return dumped
    wider = dict(dumped)
    for name in type(model).model_fields:
        value = getattr(model, name)
        for key in {name, wire_name(name)} & set(dumped):
            wider[key] = grown_value(value, dumped[key], extra)
    return {**wider, "ofANewerVersion": extra, "of_a_newer_version": extra}


def grown_value(value: Any, dumped: Any, extra: Any) -> Any:
    if isinstance(value, BaseModel):
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
def test_a_snapshot_with_fields_that_are_unknown_here_is_read_as_if_they_were_not_there(extra: Any) -> None:
    state = filled()
    wider = json.loads(json.dumps(grown(state, start.snapshot(state), extra)))
    assert json.dumps(wider).count('"ofANewerVersion"') > 20, "in every record"
    workflow_id = f"pod/default/{state.pod.metadata.name}"
    read, refusal = start.begin(
        {"snapshot": wider}, workflow_id, NOON, lambda: uuid.UUID(int=1), "node/n", replaying=False
    )
    assert not refusal
    assert read == state
