"""If a pod's workflow is reset by hand, the pod keeps its identity."""

from __future__ import annotations

from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle

from syncpod.messages.steps import Outcome, StartContainer, StepInput, StepResult
from tests.workflows.scripted import ScriptedNode, container, phase, query_pod, start_pod, until
from tests.workflows.test_facts import gone
from tests.workflows.test_pod_workflow import manifest, running


async def events_of(client: Client, handle: WorkflowHandle[Any, Any]) -> list[HistoryEvent]:
    """The history of the pod's run."""
    run = client.get_workflow_handle(handle.id, run_id=(await handle.describe()).run_id)
    return [event async for event in run.fetch_history_events()]


def task_after(events: list[HistoryEvent], kind: EventType.ValueType, number: int) -> int:
    """The end of the first workflow task that completed after the event with this kind and number."""
    begin = [event.event_id for event in events if event.event_type == kind][number]
    completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    return next(event.event_id for event in events if event.event_id > begin and event.event_type == completed)


async def reset(client: Client, node: ScriptedNode, handle: WorkflowHandle[Any, Any], to: int) -> Any:
    """Reset the pod's workflow to the end of this task; return its handle once the pod runs under the new run."""
    described = await handle.describe()
    taken = len(node.taken)
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=described.run_id),
            reason="by hand",
            workflow_task_finish_event_id=to,
            request_id="by-hand",
        )
    )
    newest = client.get_workflow_handle(handle.id)
    await until(newest, lambda pod: len(node.taken) > taken and phase(pod) == "Running")
    assert (await newest.describe()).run_id != described.run_id
    return newest


async def test_a_pod_is_the_same_incarnation_after_a_reset_to_before_its_first_decision(
    client: Client, node: ScriptedNode
) -> None:
    """As another pod, it would not recognize its own sandbox and containers, and would run them again."""
    handle = await running(client, node, manifest())
    before = (await query_pod(handle))["metadata"]["uid"]
    undone = client.get_workflow_handle(handle.id, run_id=(await handle.describe()).run_id)
    first = task_after(await events_of(client, handle), EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, 0)
    newest = await reset(client, node, handle, first)
    assert (await query_pod(newest))["metadata"]["uid"] == before
    assert len({(step.ref.uid, step.ref.incarnation) for _, step in node.taken}) == 1
    assert [line["kind"] for line in await undone.query("history")].count("step") == 2  # its own history is still there
    await newest.terminate()


async def test_the_end_of_an_older_instance_is_recorded_though_a_reset_has_put_newer_listings_before_it(
    client: Client, node: ScriptedNode
) -> None:
    """A reset keeps the signals that came after its event, and a task takes signals before results of steps."""

    async def adopted(step: StepInput) -> StepResult:
        assert isinstance(step, StartContainer)
        found = gone(step.pod, "first", sandbox=step.sandbox_id)
        mine = found.model_copy(update={"incarnation": step.ref.incarnation})
        told = await node.list(step.ref.uid, containers=(mine,))
        return StepResult(outcome=Outcome.ADOPTED, id=mine.id, status=told)

    node.script["start_init_container"].append(adopted)
    document = manifest(initContainers=[{"name": "first", "image": "busybox:1"}])
    handle = await start_pod(client, node, document)
    pod = await until(handle, lambda pod: bool(container(pod, "first").get("state", {}).get("running")))
    uid = pod["metadata"]["uid"]
    assert container(pod, "first")["restartCount"] == 1
    await node.tell(handle, await node.exits(uid, "first", 0))
    await until(handle, lambda pod: phase(pod) == "Running")

    adoption = task_after(await events_of(client, handle), EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, 1)
    newest = await reset(client, node, handle, adoption)
    exits = {line["restart"]: line["outcome"] for line in await newest.query("history") if line["kind"] == "exit"}
    assert exits == {0: "exited 137 (ContainerStatusUnknown)", 1: "exited 0 (Completed)"}
    assert node.steps(uid).count("start_init_container first") == 2
    await newest.terminate()
