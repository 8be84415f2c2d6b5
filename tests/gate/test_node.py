"""A node with the real SDK: what it needs passes the gate."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.gate.conftest import Gated


@workflow.defn(name="Ask", sandboxed=False)
class Ask:
    """Asks a node once."""

    @workflow.run
    async def run(self, node: str, name: str, word: str) -> Any:
        return await workflow.execute_activity(
            name,
            word,
            task_queue=f"fleet-node/{node}",
            start_to_close_timeout=timedelta(seconds=20),
            heartbeat_timeout=timedelta(seconds=5),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )


@activity.defn
async def echo(word: str) -> str:
    """Answer with who asks."""
    activity.heartbeat("alive")
    return f"{word} from {activity.info().task_queue}"


async def test_a_node_polls_heartbeats_and_answers(door: Gated) -> None:
    fleet = await Client.connect(door.behind)
    queue = f"fleet-{uuid.uuid4()}"
    node = await door.client("a")
    async with (
        Worker(fleet, task_queue=queue, workflows=[Ask], workflow_runner=UnsandboxedWorkflowRunner()),
        Worker(node, task_queue="fleet-node/a", activities=[echo]),
    ):
        answer = await fleet.execute_workflow(Ask.run, args=["a", "echo", "hi"], id=queue, task_queue=queue)
    assert answer == "hi from fleet-node/a"
