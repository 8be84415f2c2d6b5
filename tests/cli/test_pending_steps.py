"""The steps that Temporal is retrying, with their failures and heartbeats, plain and encrypted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.api.common.v1 import ActivityType, WorkflowExecution
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflow.v1 import PendingActivityInfo, WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import WorkflowExecutionDescription
from temporalio.converter import ActivitySerializationContext, DataConverter
from temporalio.exceptions import ApplicationError

from syncpod.signing.keys import EncryptingKeys, make_signing_keys
from syncpod.temporal.pending_steps import pending_steps
from syncpod.temporal.plugin import DATA_CONVERTER, verifying_converter
from syncpod.temporal.signing import UNREADABLE, signing_converter

WEB = "pod/default/web"
STEP = ActivitySerializationContext(
    namespace="default",
    workflow_id=WEB,
    workflow_type="PodWorkflow",
    activity_type="kill_pod",
    activity_id="3",
    activity_task_queue="node/here",
    is_local=False,
)


@pytest.fixture
def encrypted(tmp_path: Path) -> tuple[DataConverter, DataConverter]:
    """The converters of an encrypting node's worker, and of a client that has its key."""
    keys = EncryptingKeys(make_signing_keys(tmp_path))
    return verifying_converter(keys), signing_converter(DATA_CONVERTER, keys, verifies=False)


async def described(
    written: DataConverter, read: DataConverter, *, shortened: Callable[[Failure], Failure] = lambda failure: failure
) -> tuple[str, str]:
    """The shown texts of a step's last failure and its heartbeat."""
    here = written.with_context(STEP)
    failure = Failure()
    await here.encode_failure(ApplicationError("the kill takes too long", type="FailedKillPod"), failure)
    step = PendingActivityInfo(activity_type=ActivityType(name="kill_pod"), attempt=2, last_failure=shortened(failure))
    step.heartbeat_details.payloads.extend(await here.encode(["stops app"]))
    info = WorkflowExecutionInfo(execution=WorkflowExecution(workflow_id=WEB, run_id="run"))
    answer = DescribeWorkflowExecutionResponse(workflow_execution_info=info, pending_activities=[step])
    description = await WorkflowExecutionDescription._from_raw_description(answer, "default", read)
    (pending,) = await pending_steps(description)
    return pending.failure, pending.doing


async def test_a_plain_step_says_how_it_failed_and_what_it_does() -> None:
    assert await described(DATA_CONVERTER, DATA_CONVERTER) == ("the kill takes too long", "stops app")


async def test_of_a_failure_that_was_too_large_the_shorter_copy_is_shown() -> None:
    def shortened(failure: Failure) -> Failure:
        return Failure(message="Failure exceeds size limit.", cause=failure)

    assert await described(DATA_CONVERTER, DATA_CONVERTER, shortened=shortened) == (
        "the kill takes too long",
        "stops app",
    )


async def test_an_encrypted_step_is_read_with_the_key(encrypted: tuple[DataConverter, DataConverter]) -> None:
    worker, client = encrypted
    assert await described(worker, client) == ("the kill takes too long", "stops app")


async def test_without_the_key_it_is_said_to_be_unreadable(encrypted: tuple[DataConverter, DataConverter]) -> None:
    assert await described(encrypted[0], DATA_CONVERTER) == (UNREADABLE, UNREADABLE)


async def test_a_step_that_has_neither_failed_nor_said_anything_says_nothing() -> None:
    step = PendingActivityInfo(activity_type=ActivityType(name="kill_pod"), attempt=1)
    info = WorkflowExecutionInfo(execution=WorkflowExecution(workflow_id=WEB, run_id="run"))
    answer = DescribeWorkflowExecutionResponse(workflow_execution_info=info, pending_activities=[step])
    description = await WorkflowExecutionDescription._from_raw_description(answer, "default", DATA_CONVERTER)
    (pending,) = await pending_steps(description)
    assert (pending.failure, pending.doing, pending.since) == ("", "", None)
