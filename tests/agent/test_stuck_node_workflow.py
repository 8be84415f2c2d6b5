"""A node workflow whose tasks keep failing is restarted and keeps its lists.

Holds: No history wedges a pod or a node.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RawValue
from temporalio.exceptions import TerminatedError
from temporalio.worker import Worker

from activities.registry import node_steps
from syncpod.agent.node_workflow.node_signals import NodeSignals
from syncpod.lifecycle.version import build_id
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.node import NodeStatus, NodeView, RecallPods, node_workflow_id
from syncpod.node.recorded_events import NODE_SNAPSHOT_NAME, recorded_cordon, recorded_start
from syncpod.temporal.plugin import syncpod_plugin
from syncpod.temporal.pod_orders import PodOrders
from syncpod.translation.context import NodeContext
from tests.agent.test_stuck_workflows import Healer, client, forget_sticky, manifest, poisoned
from tests.agent.waiting import until_asked
from tests.workflows.scripted import DIGEST, ScriptedNode
from workflows.node import absorb
from workflows.node.workflow import NodeWorkflow
from workflows.pod.workflow import PodWorkflow
from workflows.runner import workflow_runner

__all__ = ["client"]


@pytest_asyncio.fixture(loop_scope="session")
async def node() -> ScriptedNode:
    return ScriptedNode()


@pytest_asyncio.fixture(loop_scope="session")
async def healer(client: Client, node: ScriptedNode, tmp_path: Path) -> AsyncIterator[Healer]:
    name, memory, log = node.queue.removeprefix("node/"), tmp_path / "memory", tmp_path / "log"
    context = NodeContext(name=name, state_dir=tmp_path, memory_dir=memory, log_dir=log, cluster="c/n")
    healer = Healer(client, node, context)
    yield healer
    await healer.stuck.close()


@asynccontextmanager
async def worker(healer: Healer) -> AsyncIterator[None]:
    client, node = healer.client, healer.node
    activities = [*node.activities(), *node_steps(PodOrders(client, lambda: node.facts))]
    plugin = syncpod_plugin(
        workflows=[PodWorkflow, NodeWorkflow], activities=activities, runner=workflow_runner(), watch=healer
    )
    async with Worker(client, task_queue=node.queue, build_id=build_id("syncpod-test", DIGEST), plugins=[plugin]):
        yield


async def cordoned_with_a_list(healer: Healer, name: str) -> WorkflowHandle[Any, Any]:
    """Start a cordoned node's workflow with one pod from a list."""
    node = healer.context.name
    handle = await healer.client.start_workflow(
        "NodeWorkflow", {"node": node}, id=node_workflow_id(node), task_queue=healer.node.queue
    )
    await handle.signal("sync_pods", {"source": "team", "pods": [manifest(name)]})
    await handle.execute_update("cordon")
    await until_asked(lambda: is_applied(handle, name))
    return healer.client.get_workflow_handle(handle.id)


async def is_applied(handle: WorkflowHandle[Any, Any], name: str) -> bool:
    view = NodeView.model_validate(await handle.query("node"))
    return name in {each.name for each in view.desired if each.state == "applied"}


async def restarted(handle: WorkflowHandle[Any, Any], first: str) -> NodeView:
    """Wait until the workflow has been restarted; return its state then."""

    async def is_anew() -> bool:
        return (await handle.describe()).run_id != first

    await until_asked(is_anew)
    return NodeView.model_validate(await handle.query("node"))


def said(view: NodeView) -> str:
    (event,) = (event for event in view.events if event.reason == "WorkflowRestarted")
    return event.message


def plant_a_timer(planted: pytest.MonkeyPatch) -> None:
    """Change the workflow code of workers started later: it sets an additional timer."""
    known = NodeWorkflow.publish

    def publish(self: NodeWorkflow) -> None:
        known(self)
        self.extra = asyncio.ensure_future(workflow.sleep(3600))  # type: ignore[attr-defined]

    planted.setattr(NodeWorkflow, "publish", publish)


async def test_a_node_keeps_its_lists_when_its_history_cannot_be_replayed(
    healer: Healer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = (f"{word}-{uuid.uuid4().hex[:8]}" for word in ("before", "after"))
    with monkeypatch.context() as planted:
        plant_a_timer(planted)
        async with worker(healer):
            handle = await cordoned_with_a_list(healer, before)
    pod = healer.client.get_workflow_handle(pod_workflow_id("default", before))
    first, pods_run = (await handle.describe()).run_id, (await pod.describe()).run_id
    # What is on disk is enough: the next worker has seen no task of the run.
    await healer.published_pods.flush()
    assert (healer.context.state_dir / NODE_SNAPSHOT_NAME).stat().st_mode & 0o777 == 0o600
    healer.forget()
    await handle.signal("sync_pods", {"source": "other", "pods": [manifest(after)]})
    async with worker(healer):
        await forget_sticky(healer.client, handle)
        view = await restarted(handle, first)
        assert "ondeterminis" in said(view) and "its state at" in said(view) and "without" not in said(view)
        assert view.unschedulable and view.since is not None
        await until_asked(lambda: is_applied(handle, after))
        assert await is_applied(handle, before)
        assert (await pod.describe()).run_id == pods_run, "no pod was made again"
        assert (await handle.describe()).run_id != first
        await _end(healer, before, after)


async def test_a_signal_that_a_node_has_refused_cordons_nothing_later(
    healer: Healer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"refused-{uuid.uuid4().hex[:8]}"
    with monkeypatch.context() as planted:
        plant_a_timer(planted)
        async with worker(healer):
            handle = await cordoned_with_a_list(healer, name)
            await handle.execute_update("uncordon")
            await healer.published_pods.flush()
            await handle.signal("cordon", {"by": "x"})
            asked = NodeView.model_validate(await handle.query("node"))
            assert not asked.unschedulable and any("cordon is an update" in each.message for each in asked.events)
    first = (await handle.describe()).run_id
    healer.forget()
    async with worker(healer):
        await forget_sticky(healer.client, handle)
        await handle.signal("node_status", {})
        view = await restarted(handle, first)
        assert not view.unschedulable
        await _end(healer, name)


async def test_a_node_without_a_stored_state_starts_over_and_stays_cordoned(
    healer: Healer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"alone-{uuid.uuid4().hex[:8]}"
    with monkeypatch.context() as planted:
        plant_a_timer(planted)
        async with worker(healer):
            handle = await cordoned_with_a_list(healer, name)
    first = (await handle.describe()).run_id
    healer.forget()
    async with worker(healer):
        await forget_sticky(healer.client, handle)
        await handle.signal("node_status", {})
        view = await restarted(handle, first)
        assert "its name alone" in said(view)
        assert view.unschedulable
        await _end(healer, name)


async def test_a_poison_signal_to_a_node_loses_nothing_else(healer: Healer, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"poisoned-{uuid.uuid4().hex[:8]}"
    monkeypatch.setattr(absorb, "absorb", poisoned(absorb.absorb))
    async with worker(healer):
        handle = await cordoned_with_a_list(healer, name)
        first = (await handle.describe()).run_id
        await handle.signal("apply", {"type": "poison"})

        async def is_told() -> bool:
            run = await handle.describe()
            return run.run_id != first and run.raw_description.pending_workflow_task.attempt == 0

        await until_asked(is_told)
        view = NodeView.model_validate(await handle.query("node"))
        assert "a poison signal" in said(view) and "without 1 later signal(s)" in said(view)
        assert view.unschedulable and [each.name for each in view.desired] == [name]
        await _end(healer, name)


async def test_a_stuck_workflow_under_another_nodes_name_is_ended_and_changes_nothing_here(healer: Healer) -> None:
    """Before, the node's own workflow was terminated and restarted from its name only, so lists were lost."""
    name = f"kept-{uuid.uuid4().hex[:8]}"
    payload = Payload(metadata={"encoding": b"json/plain"}, data=b'{"node":')
    async with worker(healer):
        own = await cordoned_with_a_list(healer, name)
        first = (await own.describe()).run_id
        stranger = await healer.client.start_workflow(
            "NodeWorkflow", RawValue(payload), id=f"node/strange-{name}", task_queue=healer.node.queue
        )
        with pytest.raises(WorkflowFailureError) as ended:
            async with asyncio.timeout(120):
                await stranger.result()
        assert isinstance(ended.value.cause, TerminatedError)
        view = NodeView.model_validate(await own.query("node"))
        assert (await own.describe()).run_id == first
        assert view.unschedulable and [each.name for each in view.desired] == [name]
        await _end(healer, name)


async def _end(healer: Healer, *pods: str) -> None:
    ids = [node_workflow_id(healer.context.name), *(pod_workflow_id("default", name) for name in pods)]
    for workflow_id in ids:
        await healer.client.get_workflow_handle(workflow_id).terminate()


@pytest.mark.parametrize("kind", ["Squatter", "NodeWorkflow"])
async def test_another_workflow_under_the_id_of_a_nodes_is_ended(client: Client, kind: str) -> None:
    """The server would give it the node's signals, and no pod of a list would run any more."""
    name = f"squatted-{uuid.uuid4()}"

    async def require() -> None:
        pass

    signals = NodeSignals(client, name, require, lambda: False)
    assert await signals.end_another() == ""
    await client.start_workflow(kind, id=node_workflow_id(name), task_queue="elsewhere")
    assert await signals.end_another() == f"a workflow {kind} on task queue elsewhere"
    await signals.recall_pods(RecallPods(pods=()))
    own = client.get_workflow_handle(node_workflow_id(name))
    assert (await own.describe()).task_queue == f"node/{name}"
    assert await signals.end_another() == ""
    await own.terminate()


async def test_a_nodes_workflow_that_somebody_has_terminated_begins_again_with_its_cordon_and_its_events(
    healer: Healer,
) -> None:
    """The worker has not restarted, so there is no event about a restart."""
    client, name = healer.client, healer.context.name

    async def require() -> None:
        pass

    record = partial(recorded_start, healer.context.state_dir, name)
    signals = NodeSignals(client, name, require, lambda: False, record)
    status = NodeStatus(boot=3, identity=f"node/{name}/3", has_cluster_dns=True)
    async with worker(healer):
        await signals.node_status(status)
        handle = client.get_workflow_handle(node_workflow_id(name))
        first = (await handle.describe()).run_id
        await handle.execute_update("cordon", {"by": "alice"})

        async def is_recorded() -> bool:
            await healer.published_pods.flush()
            return recorded_cordon(healer.context.state_dir) == "alice"

        await until_asked(is_recorded)
        await handle.terminate(reason="try it")
        await signals.node_status(status)
        view = NodeView.model_validate(await handle.query("node", result_type=dict))
        assert (await handle.describe()).run_id != first
        await handle.terminate()
    assert (view.unschedulable, view.boot) == (True, 3)
    assert [each.reason for each in view.events].count("Starting") == 1, view.events
    assert any("by alice" in each.message for each in view.events)
    told = next(each.message for each in view.events if each.reason == "WorkflowEnded")
    assert told.startswith("Its workflow was terminated at "), told
    assert told.endswith(": try it; its worker has begun it again; it stays cordoned"), told


async def test_a_record_that_no_worker_of_this_version_has_written_keeps_no_node_from_beginning_again(
    healer: Healer,
) -> None:
    client, name = healer.client, healer.context.name
    given = {"node": name, "ended": "its workflow was terminated", "events": 7, "status": [], "unschedulable": True}
    async with worker(healer):
        handle = await client.start_workflow(
            "NodeWorkflow", given, id=node_workflow_id(name), task_queue=healer.node.queue
        )
        view = NodeView.model_validate(await handle.query("node", result_type=dict))
        await handle.terminate()
    assert (view.unschedulable, [each.reason for each in view.events]) == (True, ["WorkflowEnded"])
