"""A node with the real SDK: what it needs passes the gate."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import Gate, TemporalFrontend
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


async def test_the_server_behind_may_ask_for_certificates_too(door: Gated, tmp_path: Path) -> None:
    """Another gate is such a server: it knows the first by the certificate of a node."""
    own = door.pair("second-gate")
    behind = TemporalFrontend(
        door.address,
        "default",
        tls=True,
        roots=door.fleet.authorities_pem().encode(),
        certificate=own.certificate.encode(),
        key=own.key.encode(),
        domain=door.fleet.server_name,
    )
    fleet = open_fleet(tmp_path / "second", now())
    gate = Gate(fleet, behind, [])
    port = await gate.start("127.0.0.1", 0)
    try:
        client = await Gated(fleet, gate, f"127.0.0.1:{port}", "").client("a")
        assert await client.service_client.check_health()
    finally:
        await gate.close()


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
