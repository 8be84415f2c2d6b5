"""The node's queue rings for a pod's back-offs, and no longer than there is the pod."""

from __future__ import annotations

from temporalio.client import Client

from syncpod.messages import Fault, PodRef
from syncpod.temporal.interceptors import NodeInterceptor
from tests.workflows.scripted import ScriptedNode, scripted_worker, start_pod, until
from tests.workflows.test_pod_workflow import manifest


class Queue:
    """Hooks that know which back-offs are to be rung for."""

    def __init__(self) -> None:
        self.armed: set[str] = set()

    def arm_backoff(self, workflow_id: str, container: str, restart: int, delay_seconds: float | None) -> None:
        if delay_seconds is None:
            self.armed.discard(container)
        else:
            self.armed.add(container)

    def step_began(self, ref: PodRef, *, kills: bool) -> None:
        pass

    def step_ended(self, ref: PodRef, fault: str) -> None:
        pass


async def test_nothing_rings_for_a_pod_that_was_deleted_in_its_back_off(client: Client) -> None:
    """The next pod of its name has fewer restarts: an alarm of this one would not be replaced by its."""
    node, queue = ScriptedNode(), Queue()
    node.fault("start_container", Fault.RUN_CONTAINER_ERROR)
    async with scripted_worker(client, node, interceptors=[NodeInterceptor(queue)]):
        handle = await start_pod(client, node, manifest())
        await until(handle, lambda _: queue.armed == {"web"})
        await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
        await handle.result()
    assert queue.armed == set()
