"""Signals with any payload, as a stranger can send them."""

from __future__ import annotations

from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client


async def signal_raw(client: Client, workflow_id: str, name: str, payload: Payload) -> None:
    """Send a signal with exactly this payload."""
    await client.workflow_service.signal_workflow_execution(
        SignalWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id),
            signal_name=name,
            input=Payloads(payloads=[payload]),
        )
    )
