from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from syncpod.agent.backoff_queue import BackoffQueue
from syncpod.agent.pleg import Pleg
from syncpod.agent.pod_signals import PodSignals
from syncpod.lifecycle.observed import ContainerRuntimeState
from syncpod.messages.identity import NodeFacts, pod_workflow_id
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from tests.agent.listings import SetUpReader, pod
from tests.agent.stub_workflows import Recorder
from tests.agent.waiting import until_asked
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect

RUNNING: ContainerRuntimeState = "running"
FACTS = NodeFacts(name="n1", runtime="containerd", host_ips=("192.0.2.7",), search_attributes=True)


@pytest.fixture
async def client(temporal_server: DevServer) -> Client:
    return await connect(temporal_server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])


@pytest.fixture
async def workflow(client: Client) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    """A workflow in place of a pod's that records its signals; its pod is `default/name-<its uid>`."""
    uid, task_queue = str(uuid.uuid4()), f"node/{uuid.uuid4()}"
    async with Worker(client, task_queue=task_queue, workflows=[Recorder]):
        handle: WorkflowHandle[Any, Any] = await client.start_workflow(
            "PodWorkflow", id=pod_workflow_id("default", f"name-{uid}"), task_queue=task_queue
        )
        yield handle
        await handle.signal("end")
        await handle.result()


async def received(workflow: WorkflowHandle[Any, Any]) -> list[dict[str, Any]]:
    signals: list[dict[str, Any]] = await workflow.query("received")
    return signals


async def test_a_burst_of_changes_is_sent_in_few_signals_ending_in_the_last_state(
    client: Client, workflow: WorkflowHandle[Any, Any]
) -> None:
    uid = workflow.id.removeprefix("pod/default/name-")
    reader = SetUpReader()
    pleg = Pleg(reader, PodSignals(client, lambda: FACTS).pleg, watch=lambda listing: None)
    changes = 60
    for change in range(changes):
        reader.has(pod(uid, **dict.fromkeys((f"c{number}" for number in range(change + 1)), RUNNING)))
        await pleg.relist()
        await asyncio.sleep(0)

    async def all_there() -> bool:
        signals = await received(workflow)
        return bool(signals) and len(signals[-1]["status"]["containers"]) == changes

    await until_asked(all_there)
    signals = await received(workflow)
    await pleg.close()

    assert len(signals) < changes / 2
    numbers = [signal["status"]["seq"]["counter"] for signal in signals]
    assert numbers == sorted(set(numbers))
    assert signals[-1]["node"] == FACTS.model_dump(mode="json", by_alias=True)


async def test_the_signal_of_an_ended_back_off_names_container_and_restart(
    client: Client, workflow: WorkflowHandle[Any, Any]
) -> None:
    queue = BackoffQueue(PodSignals(client, lambda: FACTS).backoff_over)
    queue.arm(workflow.id, "web", 3, 0.0)

    async def there() -> bool:
        return bool(await received(workflow))

    await until_asked(there)
    assert await received(workflow) == [{"signal": "backoff_queue", "container": "web", "restart": 3, "appeared": ""}]
    await queue.close()


async def test_signalling_a_missing_workflow_returns_a_result_and_no_error(client: Client) -> None:
    signals = PodSignals(client, lambda: FACTS)
    assert not await signals.backoff_over(f"pod/{uuid.uuid4()}/none", "web", 1)
