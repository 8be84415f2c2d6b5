"""Steps of a node's workflow if a pod's workflow does not answer."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from temporalio import workflow
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities import pod_workflows as module
from activities.pod_workflows import PodWorkflowSteps
from syncpod.messages.identity import NodeFacts, node_task_queue, pod_workflow_id
from syncpod.messages.node import (
    ApplyPodWorkflow,
    ApplyPodWorkflows,
    DeletePodWorkflow,
    DeletePodWorkflows,
    PodWorkflowResult,
)
from syncpod.node.pod_records import PodRecord
from syncpod.pod import Pod
from syncpod.temporal import pod_orders
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.pod_orders import PodOrders
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect


async def test_an_unanswering_workflow_is_named(temporal_server: DevServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker polls the queue of this node, so no update is ever answered."""
    monkeypatch.setattr(pod_orders, "ANSWER_SECONDS", 1.0)
    client = await connect(temporal_server.address, namespace=temporal_server.namespace, data_converter=DATA_CONVERTER)
    steps, name = PodWorkflowSteps(PodOrders(client, NodeFacts)), f"web-{uuid.uuid4().hex[:8]}"
    spec = {"containers": [{"name": "main", "image": "busybox:1"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
    apply = ApplyPodWorkflow(node=f"nobody-{uuid.uuid4()}", pod=pod)
    delete = DeletePodWorkflow(namespace="default", name=name)
    handle = await client.start_workflow("PodWorkflow", id=f"pod/default/{name}", task_queue=apply.node)
    runs: tuple[Callable[[], Awaitable[PodWorkflowResult]], ...] = (
        lambda: ActivityEnvironment().run(steps.apply_pod, apply),
        lambda: ActivityEnvironment().run(steps.delete_pod, delete),
    )
    try:
        for run in runs:
            with pytest.raises(ApplicationError) as caught:
                await run()
            assert caught.value.type == "NoAnswer"
            assert f"pod/default/{name} has not answered within 1 s" in caught.value.message
            assert not caught.value.non_retryable
    finally:
        await handle.terminate()


async def test_a_workflow_that_does_not_answer_holds_up_no_other_that_is_told_with_it(
    temporal_server: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TOGETHER_SECONDS", 1.0)
    client = await connect(temporal_server.address, namespace=temporal_server.namespace, data_converter=DATA_CONVERTER)
    silent, absent = (f"{base}-{uuid.uuid4().hex[:8]}" for base in ("web", "job"))
    queue = f"nobody-{uuid.uuid4()}"
    handle = await client.start_workflow("PodWorkflow", id=pod_workflow_id("default", silent), task_queue=queue)
    request = DeletePodWorkflows(pods=tuple(DeletePodWorkflow(name=name) for name in (silent, absent)))
    try:
        told = await ActivityEnvironment().run(PodWorkflowSteps(PodOrders(client, NodeFacts)).delete_pods, request)
    finally:
        await handle.terminate()
    assert told.results == (None, PodWorkflowResult(absent=True))


async def test_a_pod_that_cannot_be_started_holds_up_no_other_that_starts_with_it(
    temporal_server: DevServer, caplog: pytest.LogCaptureFixture
) -> None:
    """An unreadable pod is left to a step of its own, and its content is not logged."""
    client = await connect(temporal_server.address, namespace=temporal_server.namespace, data_converter=DATA_CONVERTER)
    broken, refused, whole = (f"{base}-{uuid.uuid4().hex[:8]}" for base in ("web", "job", "other"))

    async def recorded(pod: Pod) -> PodRecord | None:
        if pod.metadata.name == broken:
            raise OSError("an unreadable record, with words of the pod")
        return None

    def document(name: str, **spec: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "default", "uid": name}
        spec = {"containers": [{"name": "main", "image": "busybox:1"}], **spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    queue = f"nobody-{uuid.uuid4()}"
    documents: tuple[dict[str, Any], ...] = (
        document(broken),
        document(refused, nodeName="elsewhere"),
        document(whole),
        {},
    )
    request = ApplyPodWorkflows(pods=tuple(ApplyPodWorkflow(node=queue, pod=each) for each in documents))
    handle = client.get_workflow_handle(pod_workflow_id("default", whole))
    steps = PodWorkflowSteps(PodOrders(client, NodeFacts, recorded))
    try:
        first, second, third, fourth = (await ActivityEnvironment().run(steps.apply_pods, request)).results
    finally:
        await handle.terminate()
    assert first is None
    assert "gets its order alone: OSError" in caplog.text
    assert "words of the pod" not in caplog.text
    assert second is not None
    assert second.refused == f"spec.nodeName: is elsewhere, this is {queue}"
    assert third == PodWorkflowResult(uid=whole)
    assert fourth is not None
    assert fourth.refused


async def test_a_cancelled_step_does_not_report_an_unanswering_workflow(
    temporal_server: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(temporal_server.address, namespace=temporal_server.namespace)
    steps, name = PodWorkflowSteps(PodOrders(client, NodeFacts)), f"web-{uuid.uuid4().hex[:8]}"
    handle = await client.start_workflow("PodWorkflow", id=f"pod/default/{name}", task_queue=f"nobody-{uuid.uuid4()}")
    delete = DeletePodWorkflow(namespace="default", name=name)
    update, asked = client.workflow_service.update_workflow_execution, asyncio.Event()

    async def noted(*request: Any, **how: Any) -> Any:
        asked.set()
        return await update(*request, **how)

    monkeypatch.setattr(client.workflow_service, "update_workflow_execution", noted)
    step = asyncio.create_task(ActivityEnvironment().run(steps.delete_pod, delete))
    await asked.wait()
    step.cancel()
    (ended,) = await asyncio.gather(step, return_exceptions=True)
    assert isinstance(ended, BaseException)
    assert not isinstance(ended, ApplicationError)
    await handle.terminate()


@workflow.defn(name="PodWorkflow")
class CutShort:
    """Accepts an update and ends before it has executed it; refuses a deletion without grace."""

    @workflow.init
    def __init__(self, _start: Any = None) -> None:
        self.accepted = False

    @workflow.run
    async def run(self, _start: Any = None) -> None:
        await workflow.wait_condition(lambda: self.accepted)
        await workflow.sleep(0.001)

    @workflow.update(unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def apply(self, _document: Any) -> dict[str, Any]:
        self.accepted = True
        await workflow.wait_condition(lambda: False)
        return {}

    @workflow.update(unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def delete(self, payload: Any) -> dict[str, Any]:
        if payload.get("gracePeriodSeconds") == 0:
            raise ApplicationError("gracePeriodSeconds: too short", type="Invalid", non_retryable=True)
        self.accepted = True
        await workflow.wait_condition(lambda: False)
        return {}


async def test_an_accepted_update_that_was_not_carried_out_is_not_a_refusal(temporal_server: DevServer) -> None:
    client = await connect(temporal_server.address, namespace=temporal_server.namespace, data_converter=DATA_CONVERTER)
    steps, name, node = (
        PodWorkflowSteps(PodOrders(client, NodeFacts)),
        f"web-{uuid.uuid4().hex[:8]}",
        f"cut-{uuid.uuid4()}",
    )
    queue, id_ = node_task_queue(node), pod_workflow_id("default", name)
    spec = {"containers": [{"name": "main", "image": "busybox:1"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue=queue, workflows=[CutShort], workflow_runner=runner):
        handle = await client.start_workflow("PodWorkflow", id=id_, task_queue=queue)
        delete = DeletePodWorkflow(namespace="default", name=name, grace_period_seconds=0)
        result = await ActivityEnvironment().run(steps.delete_pod, delete)
        assert result == PodWorkflowResult(refused="gracePeriodSeconds: too short")
        with pytest.raises(ApplicationError) as caught:
            await ActivityEnvironment().run(steps.delete_pod, DeletePodWorkflow(namespace="default", name=name))
        assert (caught.value.type, caught.value.non_retryable) == ("AcceptedUpdateCompletedWorkflow", False)
        await handle.result()
        with pytest.raises(ApplicationError) as caught:
            await ActivityEnvironment().run(steps.apply_pod, ApplyPodWorkflow(node=node, pod=pod))
        assert (caught.value.type, caught.value.non_retryable) == ("AcceptedUpdateCompletedWorkflow", False)
