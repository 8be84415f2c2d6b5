"""The steps of a pod that Temporal is trying, with their last failures and heartbeats."""

from __future__ import annotations

from datetime import UTC
from typing import Final

from temporalio.api.common.v1 import Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import WorkflowExecutionDescription
from temporalio.converter import DataConverter
from temporalio.exceptions import FailureError

from syncpod.messages.running_steps import PendingStep
from syncpod.temporal.failures import ENCODED
from syncpod.temporal.signing import UNREADABLE

_TOO_LARGE: Final = "Failure exceeds size limit."
"""The server's message in place of a failure of more than a few KiB."""


async def pending_steps(description: WorkflowExecutionDescription) -> tuple[PendingStep, ...]:
    """Return the steps that have been scheduled and have not ended, as Temporal describes them.

    An encrypted text is shown as unreadable if this user lacks its key.
    """
    converter = description.data_converter
    return tuple([await _pending(step, converter) for step in description.raw_description.pending_activities])


async def _pending(step: PendingActivityInfo, converter: DataConverter) -> PendingStep:
    return PendingStep(
        name=step.activity_type.name,
        attempt=step.attempt,
        since=step.scheduled_time.ToDatetime(UTC) if step.HasField("scheduled_time") else None,
        failure=await _why(step.last_failure, converter) if step.HasField("last_failure") else "",
        doing=await _last_heartbeat(step.heartbeat_details, converter),
    )


async def _why(failure: Failure, converter: DataConverter) -> str:
    """Return why a step last failed. If a failure has long traces, the server keeps a shorter copy as the cause."""
    cause = Failure()
    cause.CopyFrom(failure.cause if failure.message == _TOO_LARGE else failure)
    error = await converter.decode_failure(cause)
    if isinstance(error, FailureError) and error.message == ENCODED:
        return UNREADABLE
    return error.message if isinstance(error, FailureError) else str(error)


async def _last_heartbeat(heartbeat: Payloads, converter: DataConverter) -> str:
    """Return the text of a step's last heartbeat; "" if it has sent none."""
    if not heartbeat.payloads:
        return ""
    try:
        return str((await converter.decode(heartbeat.payloads))[0])
    except Exception:  # noqa: BLE001  # a converter may raise anything, and anybody may send a heartbeat by hand
        return UNREADABLE
