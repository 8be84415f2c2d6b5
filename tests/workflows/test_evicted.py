"""A workflow that has left the cache is freed at once, without the garbage collector: a worker's comes after hours."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest
from temporalio.client import Client

from syncpod.temporal.interceptors import NodeInterceptor
from syncpod.temporal.resize_metrics import ResizeMetricsInterceptor
from syncpod.temporal.tracing import TracingInterceptor
from syncpod.temporal.workflow_watch import WatchedRunner
from tests.workflows.scripted import ScriptedNode, scripted_worker, start_pod, until
from tests.workflows.test_pod_workflow import is_ready, manifest
from tests.workflows.test_signed import Watches
from workflows.pod.state import PodState
from workflows.runner import workflow_runner

PODS = 3
PATIENCE_SECONDS = 60.0


@pytest.fixture
def no_collection() -> Iterator[None]:
    """The garbage collector rests."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def states() -> int:
    """How many pods' states there are in this process."""
    return sum(type(each) is PodState for each in gc.get_objects())


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
