"""A workflow always can be evicted from the cache, and its memory is freed at once, without the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker._workflow_instance import _WorkflowBeingEvictedError

from syncpod.temporal.interceptors import NodeInterceptor
from syncpod.temporal.one_activation import OneActivation
from syncpod.temporal.resize_metrics import ResizeMetricsInterceptor
from syncpod.temporal.tracing import TracingInterceptor
from syncpod.temporal.workflow_watch import WatchedRunner
from tests.workflows.scripted import ScriptedNode, container, query_pod, scripted_worker, start_pod, until
from tests.workflows.test_pod_workflow import is_ready, manifest
from tests.workflows.test_signed import Watches
from workflows.pod.pipelining import Pipeline
from workflows.pod.state import PodState
from workflows.runner import workflow_runner

PODS = 3
PATIENCE_SECONDS = 60.0


def states() -> int:
    """The number of pods' states in this process."""
    return alive(PodState)


def alive(what: type) -> int:
    """The number of objects of a type in this process."""
    return sum(type(each) is what for each in gc.get_objects())


def is_in_backoff(pod: dict[str, Any]) -> bool:
    """Whether the container waits to be restarted, so that the workflow's alarm is set."""
    return "waiting" in container(pod, "web")["state"]


@pytest.mark.usefixtures("no_collection")
async def test_the_state_of_an_evicted_workflow_is_freed(client: Client) -> None:
    before = states()
    watched = WatchedRunner(workflow_runner(), Watches())
    interceptors = [NodeInterceptor(None, watched), TracingInterceptor(), ResizeMetricsInterceptor()]
    node = ScriptedNode()
    async with scripted_worker(client, node, workflow_runner=watched, interceptors=interceptors):
        handles = []
        for number in range(PODS):
            pod = manifest()
            pod["metadata"]["name"] = f"evicted-{number}"
            handles.append(await start_pod(client, node, pod))
            await until(handles[-1], is_ready)
        assert states() >= before + PODS
        for handle in handles:
            await handle.signal("delete_pod", {})
            await handle.result()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while states() > before:  # noqa: ASYNC110  # there is nothing to wait on
                await asyncio.sleep(0.1)


@pytest.mark.usefixtures("no_collection")
async def test_the_last_activation_of_a_workflow_that_ends_with_its_alarm_set_is_freed(client: Client) -> None:
    before = states()
    watched, node = WatchedRunner(workflow_runner(), Watches()), ScriptedNode()
    async with scripted_worker(client, node, workflow_runner=watched, interceptors=[NodeInterceptor(None, watched)]):
        handle = await start_pod(client, node, manifest())
        await until(handle, is_ready)
        uid = (await query_pod(handle))["metadata"]["uid"]
        await node.tell(handle, await node.exits(uid, "web", 1), "ContainerDied")
        await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
        await node.tell(handle, await node.exits(uid, "web", 1), "ContainerDied")
        await until(handle, is_in_backoff)
        await handle.signal("delete_pod", {})
        await handle.result()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while states() > before:  # noqa: ASYNC110  # there is nothing to wait on
                await asyncio.sleep(0.1)
    # Its traceback refers to the activation, and to what that has cancelled.
    assert not alive(_WorkflowBeingEvictedError)


async def test_a_task_that_takes_too_long_is_tried_again_although_its_thread_has_not_come_back(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK evicts the run while its thread is still in it: without turns, the steps that wait would never end."""
    watched, node = WatchedRunner(workflow_runner(), Watches()), ScriptedNode()
    slow, see_through = [4.0], Pipeline.see_through

    async def late(self: Pipeline, *begun: Any) -> None:
        if slow:
            time.sleep(slow.pop())  # noqa: ASYNC251  # nothing interrupts it; two steps have just been scheduled
        await see_through(self, *begun)

    monkeypatch.setattr(Pipeline, "see_through", late)
    async with scripted_worker(client, node, workflow_runner=OneActivation(watched)):
        handle = await start_pod(client, node, manifest())
        await until(handle, is_ready)
    assert not slow
