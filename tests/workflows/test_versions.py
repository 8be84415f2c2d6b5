"""A run that was begun with older decisions continues as new with the worker's, at its next quiet point."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.workflows.scripted import ScriptedNode, phase, start_pod, until
from workflows.pod import PodWorkflow


async def test_a_run_with_older_decisions_continues_as_new_when_the_worker_says_its_version(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = ScriptedNode()
    document: dict[str, Any] = {
        "metadata": {"name": f"web-{uuid.uuid4().hex[:8]}"},
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "web", "image": "busybox:1"}]},
    }
    async with Worker(
        client,
        task_queue=node.queue,
        workflows=[PodWorkflow],
        activities=node.activities(),
        workflow_runner=UnsandboxedWorkflowRunner(),  # so that the patched versions are the workflow's
    ):
        handle = await start_pod(client, node, document)
        running = await until(handle, lambda pod: phase(pod) == "Running")
        uid = running["metadata"]["uid"]
        first_run = (await handle.describe()).run_id
        await handle.signal("pleg", {"decisionVersion": 2})
        assert (await until(handle, lambda pod: phase(pod) == "Running"))["metadata"]["uid"] == uid
        latest = client.get_workflow_handle(handle.id)
        assert (await latest.describe()).run_id == first_run, "this worker has no newer decisions than the run"

        monkeypatch.setattr("workflows.pod.DECISION_VERSION", 2)
        monkeypatch.setattr("workflows.start.DECISION_VERSION", 2)
        await handle.signal("pleg", {"decisionVersion": 2})
        await until(latest, lambda pod: phase(pod) == "Running")
        assert (await latest.describe()).run_id != first_run
        await latest.signal("pleg", {"decisionVersion": 2})
        second_run = (await latest.describe()).run_id
        assert (await until(latest, lambda pod: phase(pod) == "Running"))["metadata"]["uid"] == uid
        assert (await latest.describe()).run_id == second_run, "once is enough"
        assert node.steps(uid) == ["create_sandbox", "start_container web"]
