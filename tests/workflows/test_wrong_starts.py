"""Starts with any number of payloads, as anybody with access to the server can send: none blocks a name for good.

Holds: No history wedges a pod or a node.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from syncpod.lifecycle.version import build_id
from tests.workflows.sandbox import Sandbox
from tests.workflows.scripted import DIGEST, ScriptedNode, phase, start_pod, until
from tests.workflows.test_pod_workflow import manifest
from workflows.fleet.node import FleetNodeWorkflow
from workflows.fleet.object import FleetObjectWorkflow
from workflows.fleet.remote_command import RemoteCommandWorkflow
from workflows.fleet.workload import WorkloadWorkflow
from workflows.node.workflow import NodeWorkflow
from workflows.pod.workflow import PodWorkflow

WORKFLOWS: list[Any] = [
    PodWorkflow,
    NodeWorkflow,
    RemoteCommandWorkflow,
    FleetNodeWorkflow,
    FleetObjectWorkflow,
    WorkloadWorkflow,
]
WITH_INPUT = [each for each in WORKFLOWS if each not in (FleetObjectWorkflow, WorkloadWorkflow)]
"""The workflows that need an input at their start; the others wait for the first command."""


@pytest.mark.parametrize("count", [0, 2, 50])
async def test_a_start_with_another_number_of_payloads_than_one_is_refused_at_once(client: Client, count: int) -> None:
    queue = f"node/{uuid.uuid4().hex[:8]}"
    build = build_id("syncpod-test", DIGEST)
    async with (
        asyncio.timeout(60),
        Worker(client, task_queue=queue, workflows=WORKFLOWS, workflow_runner=Sandbox(), build_id=build),
    ):
        for each in WORKFLOWS if count else WITH_INPUT:
            kind, id_ = each.__temporal_workflow_definition.name, f"{queue}/{each.__name__}"
            handle = await client.start_workflow(kind, args=[{"pod": manifest()}] * count, id=id_, task_queue=queue)
            with pytest.raises(WorkflowFailureError) as failed:
                await handle.result()
            cause = failed.value.cause
            assert isinstance(cause, ApplicationError) and cause.type == "Invalid", (kind, cause)
            assert count == 0 or cause.message == f"input: takes one payload, got {count}", kind


async def test_a_name_that_such_a_start_has_used_is_free(client: Client, node: ScriptedNode) -> None:
    document = manifest()
    id_ = f"pod/default/{document['metadata']['name']}"
    squatter = await client.start_workflow("PodWorkflow", args=[{"pod": document}] * 2, id=id_, task_queue=node.queue)
    with pytest.raises(WorkflowFailureError):
        await squatter.result()
    await until(await start_pod(client, node, document), lambda pod: phase(pod) == "Running")


async def test_what_a_schedule_starts_says_that_a_schedule_can_start_no_pod(client: Client, node: ScriptedNode) -> None:
    """A server adds the time to the id that a schedule names, so that each of its runs has another one."""
    document = manifest()
    expected = f"pod/default/{document['metadata']['name']}"
    for id_, is_of_schedule in ((f"{expected}-2026-11-28T20:40:00Z", True), (f"{expected}-2026-11-28", False)):
        begun = await client.start_workflow("PodWorkflow", {"pod": document}, id=id_, task_queue=node.queue)
        with pytest.raises(WorkflowFailureError) as failed:
            await begun.result()
        says = str(failed.value.cause)
        assert (f"workflow id: must be {expected} for this pod, is {id_}" in says) != is_of_schedule
        assert ("a schedule can start no pod" in says) == is_of_schedule
        assert says.endswith("or send the update `apply`, as docs/temporal.md shows") == is_of_schedule


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"pdo": {}}, "pod: required; pdo: unknown field"),
        ({}, "pod: required"),
        ({"pod": 5}, "pod: must be an object, a v1 Pod"),
        (7, 'input: must be {"pod": <v1 Pod>}'),
    ],
)
async def test_a_start_without_a_pod_says_what_is_wrong_with_it(
    client: Client, node: ScriptedNode, given: object, says: str
) -> None:
    id_ = f"pod/default/wrong-{uuid.uuid4().hex[:8]}"
    begun = await client.start_workflow("PodWorkflow", given, id=id_, task_queue=node.queue)
    with pytest.raises(WorkflowFailureError) as failed:
        await begun.result()
    assert str(failed.value.cause) == f"Invalid: {says}"
