"""The steps of a pod that Temporal is trying, and what they say of themselves."""

from __future__ import annotations

from datetime import UTC
from typing import Final

from temporalio.api.common.v1 import Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.client import WorkflowExecutionDescription
from temporalio.converter import default

from syncpod.cli.view.pod_description import PendingStep

_TOO_LARGE: Final = "Failure exceeds size limit."
"""What a server says instead of a failure of more than a few KiB."""


def pending_steps(description: WorkflowExecutionDescription) -> tuple[PendingStep, ...]:
    """Return the steps that have been scheduled and have not ended, as Temporal describes them."""
    return tuple(
        PendingStep(
            name=activity.activity_type.name,
            attempt=activity.attempt,
            since=activity.scheduled_time.ToDatetime(UTC) if activity.HasField("scheduled_time") else None,
            failure=_why(activity.last_failure),
            doing=_said(activity.heartbeat_details),
        )
        for activity in description.raw_description.pending_activities
    )


def _why(failure: Failure) -> str:
    """Return why a step last failed. Of a failure with long traces, the server keeps a shorter copy as the cause."""
    return failure.cause.message if failure.message == _TOO_LARGE else failure.message


def _said(heartbeat: Payloads) -> str:
    """Return the text of a step's last heartbeat; "" if it has sent none."""
    for payload in heartbeat.payloads:
        return str(default().payload_converter.from_payload(payload))
    return ""
