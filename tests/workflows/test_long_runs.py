"""A long or large run continues as new even if its pod never rests: a server ends it at 51,200 events, or at 50 MB.

Holds: A flood of signals is absorbed in parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner

from tests.workflows.scripted import ScriptedNode, container, in_another_run, scripted_worker, start_pod, until
from tests.workflows.test_pod_workflow import is_ready, manifest
from tests.workflows.test_pulls import runs, two


@pytest_asyncio.fixture(loop_scope="session")
async def node(client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedNode]:
    """A node for which thirty events are too many."""
    monkeypatch.setattr("workflows.pod.step_runner.TOO_LONG", 30)
    scripted = ScriptedNode()
    async with scripted_worker(client, scripted, workflow_runner=UnsandboxedWorkflowRunner()):
        yield scripted


async def test_a_long_run_continues_as_new_between_two_steps(client: Client, node: ScriptedNode) -> None:
    """Ten starts in a row: until the last one, nothing is pending and the pod never rests."""
    names = [f"c{number}" for number in range(10)]
    handle = await start_pod(
        client, node, manifest(containers=[{"name": name, "image": "busybox:1"} for name in names])
    )
    latest = client.get_workflow_handle(handle.id)
    await until(latest, is_ready)
    assert node.steps() == ["create_sandbox", *(f"start_container {name}" for name in names)]
    run = client.get_workflow_handle(handle.id, run_id=handle.result_run_id)
    first = [event async for event in run.fetch_history_events()]
    assert first[-1].HasField("workflow_execution_continued_as_new_event_attributes")
    assert 30 <= len(first) < 45


async def test_a_large_run_continues_as_new_between_two_steps(
    client: Client, node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten starts in a row, of which each is given a pod of 100 KB."""
    monkeypatch.setattr("workflows.pod.step_runner.TOO_LONG", 10_000)
    monkeypatch.setattr("workflows.pod.step_runner.TOO_LARGE", 600_000)
    names = [f"c{number}" for number in range(10)]
    document = manifest(containers=[{"name": name, "image": "busybox:1"} for name in names])
    document["metadata"]["annotations"] = {"example.com/note": "x" * 100_000}
    handle = await start_pod(client, node, document)
    latest = client.get_workflow_handle(handle.id)
    await until(latest, is_ready)
    run = client.get_workflow_handle(handle.id, run_id=handle.result_run_id)
    first = [event async for event in run.fetch_history_events()]
    assert first[-1].HasField("workflow_execution_continued_as_new_event_attributes")
    assert 600_000 <= sum(event.ByteSize() for event in first) < 1_000_000
    assert node.steps() == ["create_sandbox", *(f"start_container {name}" for name in names)]


async def test_a_long_run_continues_as_new_during_an_endless_pull(client: Client, node: ScriptedNode) -> None:
    """The next run begins the pull again, and a container that crashes beside it continues."""
    node.absent.add("gone:1")
    node.gate["pull_image"] = asyncio.Event()
    handle = await start_pod(client, node, manifest(containers=two()))
    latest = client.get_workflow_handle(handle.id)
    pod = await until(latest, lambda pod: runs(pod, "quick"))
    uid = pod["metadata"]["uid"]
    for restart in range(1, 4):
        await latest.signal("restart", {"container": "quick"})
        await until(latest, lambda pod, n=restart: container(pod, "quick").get("restartCount") == n)  # type: ignore[misc]
    await in_another_run(latest, handle.result_run_id)
    await until(latest, lambda pod: runs(pod, "quick") and node.steps().count("pull_image slow") > 1)
    node.gate["pull_image"].set()
    await until(latest, is_ready)
    assert node.steps(uid).count("start_container slow") == 1
    assert container(await until(latest, is_ready), "quick")["restartCount"] == 3
