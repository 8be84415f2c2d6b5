from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.workflow import ActivityCancellationType

from syncpod.messages.worker_functions import STEP_CANCELLED
from syncpod.temporal.step_cancellation import StepCancellation
from syncpod.temporal.timeouts import HEARTBEAT_THROTTLE
from tests.agent.waiting import until_asked
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect


@workflow.defn
class Cancels:
    """Runs one step until the signal to cancel it; returns the step's last heartbeat."""

    def __init__(self) -> None:
        self.enough = False

    @workflow.run
    async def run(self) -> str:
        step: workflow.ActivityHandle[str] = workflow.start_activity(
            "never_heartbeats_again",
            result_type=str,
            start_to_close_timeout=timedelta(hours=1),
            heartbeat_timeout=timedelta(minutes=10),
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        await workflow.wait_condition(lambda: self.enough)
        step.cancel()
        workflow.extern_functions()[STEP_CANCELLED](workflow.info().workflow_id)
        return await step

    @workflow.signal
    def cancel(self) -> None:
        self.enough = True


@activity.defn
async def never_heartbeats_again() -> str:
    activity.heartbeat("waits")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        return "let go"
    return "slept"


async def test_a_step_that_does_not_heartbeat_is_told_of_its_cancellation(temporal_server: DevServer) -> None:
    client = await connect(temporal_server.address)
    queue = f"node/{uuid.uuid4()}"
    async with Worker(
        client,
        task_queue=queue,
        workflows=[Cancels],
        activities=[never_heartbeats_again],
        interceptors=[StepCancellation()],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
    ):
        handle = await client.start_workflow(Cancels.run, id=f"cancels-{uuid.uuid4()}", task_queue=queue)

        async def says_what_it_does() -> bool:
            steps = (await handle.describe()).raw_description.pending_activities
            return any(payload.data == b'"waits"' for step in steps for payload in step.heartbeat_details.payloads)

        await until_asked(says_what_it_does)
        await handle.signal(Cancels.cancel)
        # Its own heartbeat would never come, and its timeout only after ten minutes.
        async with asyncio.timeout(60):
            assert await handle.result() == "let go"
