"""Steps under a real Temporal server and worker: results, cancellations, failures and retries.

Holds: A failure has a stack trace only if it is a defect.
Holds: Every back-off is visible.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import activities
from syncpod.lifecycle.actions import StepName
from syncpod.messages.steps import Fault, Outcome, PullImage, StepInput, StepResult
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.step_cancellation import StepCancellation
from syncpod.temporal.timeouts import HEARTBEAT_THROTTLE
from tests.activities.bench import DEAF, Bench, container, until
from tests.activities.one_step_workflow import OneStep
from tests.activities.registry import registry
from tests.activities.test_defects import failing
from tests.activities.test_kill import is_stopping, killing, started
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect

Handle = WorkflowHandle[OneStep, tuple[str, StepResult | None]]


class Workflows:
    """Steps that are run by workflows of their own, on a worker with the node's activities."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    async def begin(self, name: StepName, request: StepInput) -> Handle:
        wire = request.model_dump(mode="json", by_alias=True)
        return await self._client.start_workflow(
            OneStep.run, args=[name.value, wire], id=f"one-step-{uuid.uuid4()}", task_queue=self._task_queue
        )


@pytest_asyncio.fixture
async def workflows(bench: Bench, temporal_server: DevServer) -> AsyncIterator[Workflows]:
    client = await connect(temporal_server.address, namespace=temporal_server.namespace, data_converter=DATA_CONVERTER)
    task_queue = f"node/{uuid.uuid4()}"
    worker = Worker(
        client,
        task_queue=task_queue,
        workflows=[OneStep],
        activities=activities.steps(bench.node),
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[StepCancellation()],
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
    )
    async with worker:
        yield Workflows(client, task_queue)


def traces_of(failure: Failure) -> list[str]:
    """The stack traces of a failure and of its causes."""
    return [failure.stack_trace, *(traces_of(failure.cause) if failure.HasField("cause") else [])]


async def traces(handle: Handle) -> list[str]:
    """The stack traces of all failures of steps in a history."""
    events = (await handle.fetch_history()).events
    failed = [each.activity_task_failed_event_attributes for each in events]
    return [trace for each in failed if each.HasField("failure") for trace in traces_of(each.failure)]


async def test_a_step_result_survives_temporal_unchanged(bench: Bench, workflows: Workflows) -> None:
    pod = bench.pod()
    outcome, result = await (await workflows.begin(StepName.CREATE_SANDBOX, pod.sandbox_request())).result()
    assert outcome == Outcome.DONE
    assert result is not None
    assert (result.status, result.node.name) == (bench.agent.returned[-1], "node-a")


async def test_a_pod_level_fault_is_not_retried_and_carries_the_status(bench: Bench, workflows: Workflows) -> None:
    pod = bench.pod(container(command=("/no/such/program",)))
    await pod.create_sandbox()
    handle = await workflows.begin(StepName.START_CONTAINER, pod.start_request())
    fault, detail = await handle.result()
    assert fault == Fault.RUN_CONTAINER_ERROR
    assert detail is not None
    assert (detail.attempt, [event.reason for event in detail.events]) == (1, ["Pulled", "Created", "Failed"])
    assert [sandbox.id for sandbox in detail.status.sandboxes] == [pod.sandbox_id]
    assert set(await traces(handle)) == {""}, "its message says all"


async def test_only_the_failure_of_a_defect_has_a_stack_trace(
    bench: Bench, workflows: Workflows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.cri, "run_pod_sandbox", failing(ValueError("out of range")))
    handle = await workflows.begin(StepName.CREATE_SANDBOX, bench.pod().sandbox_request())
    fault, _ = await handle.result()
    assert fault == Fault.INTERNAL_ERROR
    assert ["step.py" in trace for trace in await traces(handle)] == [True]


async def test_a_step_is_retried_by_temporal_while_the_runtime_is_down(bench: Bench, workflows: Workflows) -> None:
    pod = bench.pod()
    bench.runtime.kill()
    try:
        handle = await workflows.begin(StepName.CREATE_SANDBOX, pod.sandbox_request())

        async def has_failed_once() -> bool:
            return any(each.attempt > 1 for each in await pending())

        async def pending() -> Sequence[PendingActivityInfo]:
            return (await handle.describe()).raw_description.pending_activities

        await until(has_failed_once)
        assert {trace for each in await pending() for trace in traces_of(each.last_failure)} == {""}
    finally:
        await bench.restart_runtime()
    outcome, result = await handle.result()
    assert outcome == Outcome.DONE
    assert result is not None
    assert result.attempt > 1


async def test_a_cancelled_pull_returns_cancelled(bench: Bench, workflows: Workflows) -> None:
    with registry() as shelf:
        shelf.announce_to(bench.runtime)
        pod = bench.pod(container(image=f"{shelf.address}/app:1"))
        await pod.create_sandbox()
        shelf.open.clear()
        handle = await workflows.begin(
            StepName.PULL_IMAGE, PullImage(ref=pod.ref, fence=pod.next_fence(), pod=pod.pod, container="main")
        )
        await shelf.asked()
        await handle.signal(OneStep.cancel)
        outcome, result = await handle.result()
        assert outcome == Outcome.CANCELLED
        assert result is not None
        assert (result.status.seq.counter, result.missing_images, result.node.name) == (0, None, "node-a")


async def heard_of_its_cancellation(handle: Handle) -> None:
    """Wait until the step got an answer to a heartbeat that it sent after its cancellation."""
    heard: list[datetime] = []

    async def so() -> bool:
        [step] = (await handle.describe()).raw_description.pending_activities
        if step.state == PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED:
            heard.append(step.last_heartbeat_time.ToDatetime())
        return bool(heard) and heard[0] < heard[-1]

    await until(so)


async def test_a_cancelled_start_returns_the_container_that_it_started(bench: Bench, workflows: Workflows) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    with bench.runtime.gates.hold("runc-start") as gate:
        handle = await workflows.begin(StepName.START_CONTAINER, pod.start_request())
        await gate.reached()
        await handle.signal(OneStep.cancel)
        await heard_of_its_cancellation(handle)
    outcome, result = await handle.result()
    assert outcome == Outcome.DONE
    assert result is not None
    assert [each.state for each in result.status.containers] == ["running"]


async def test_a_cancelled_kill_returns_stopping(bench: Bench, workflows: Workflows) -> None:
    pod = bench.pod(container(command=DEAF))
    [main] = await started(pod)
    handle = await workflows.begin(StepName.KILL_CONTAINER, killing(pod, main, 600))
    await until(lambda: is_stopping(bench, main))
    await handle.signal(OneStep.cancel)
    outcome, result = await handle.result()
    assert outcome == Outcome.STOPPING
    assert result is not None
    assert [each.state for each in result.status.containers] == ["running"]
    await pod.kill(grace=2)
