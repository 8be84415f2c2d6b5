"""The steps of a pod that Temporal is trying, and what they say of themselves."""

from __future__ import annotations

from datetime import UTC

from temporalio.api.common.v1 import Payloads
from temporalio.client import WorkflowExecutionDescription
from temporalio.converter import default

from syncpod.cli.view.pod_description import PendingStep


def pending_steps(description: WorkflowExecutionDescription) -> tuple[PendingStep, ...]:
    """Return the steps that have been scheduled and have not ended, as Temporal describes them."""
    return tuple(
        PendingStep(
            name=activity.activity_type.name,
            attempt=activity.attempt,
            since=activity.scheduled_time.ToDatetime(UTC) if activity.HasField("scheduled_time") else None,
            failure=activity.last_failure.message,
            doing=_said(activity.heartbeat_details),
        )
        for activity in description.raw_description.pending_activities
    )


def _said(heartbeat: Payloads) -> str:
    """Return the text of a step's last heartbeat; "" if it has sent none."""
    for payload in heartbeat.payloads:
        return str(default().payload_converter.from_payload(payload))
    return ""
