"""A pod whose workflow is reset by hand goes on as the same pod."""

from __future__ import annotations

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client

from tests.workflows.scripted import ScriptedNode, query_pod, until
from tests.workflows.test_pod_workflow import manifest, running


async def test_a_pod_is_the_same_incarnation_after_a_reset_to_before_its_first_decision(
    client: Client, node: ScriptedNode
) -> None:
    """As another one, it would not know its own sandbox and containers, and run them again."""
    handle = await running(client, node, manifest())
    before = (await query_pod(handle))["metadata"]["uid"]
    described = await handle.describe()
    completed = [
        event.event_id
        async for event in client.get_workflow_handle(handle.id, run_id=described.run_id).fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=described.run_id),
            reason="by hand",
            workflow_task_finish_event_id=completed[0],
            request_id="by-hand",
        )
    )
    newest = client.get_workflow_handle(handle.id)
    taken = len(node.taken)
    await until(newest, lambda pod: len(node.taken) > taken and pod["status"]["phase"] == "Running")
    assert (await newest.describe()).run_id != described.run_id
    assert (await query_pod(newest))["metadata"]["uid"] == before
    assert len({(step.ref.uid, step.ref.incarnation) for _, step in node.taken}) == 1
    await newest.terminate()
