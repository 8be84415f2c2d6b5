"""The node's alarms for back-offs are armed only while the pod exists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle

from syncpod.messages.steps import Fault
from syncpod.temporal.interceptors import NodeInterceptor
from tests.workflows.scripted import ScriptedNode, container, phase, query_pod, scripted_worker, start_pod, until
from tests.workflows.test_pod_workflow import manifest

RUN_ERROR = Fault.RUN_CONTAINER_ERROR.value


class Queue:
    """Records for which back-offs an alarm is armed."""

    def __init__(self) -> None:
        self.armed: set[str] = set()

    def arm_backoff(self, workflow_id: str, subject: str, restart: int, delay_seconds: float | None) -> None:
        if delay_seconds is None:
            self.armed.discard(subject)
        else:
            self.armed.add(subject)


async def test_the_alarm_of_a_pod_deleted_in_its_back_off_is_disarmed(client: Client) -> None:
    """The next pod of this name has fewer restarts, so its alarm would not replace this pod's."""
    node, queue = ScriptedNode(), Queue()
    node.fault("start_container", Fault.RUN_CONTAINER_ERROR)
    async with scripted_worker(client, node, interceptors=[NodeInterceptor(queue.arm_backoff)]):
        handle = await start_pod(client, node, manifest())
        await until(handle, lambda _: queue.armed == {"web"})
        await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
        await handle.result()
    assert queue.armed == set()


async def test_a_timer_that_fires_during_a_step_does_not_lead_to_two_timers(client: Client) -> None:
    node = ScriptedNode()
    document = manifest(containers=[{"name": name, "image": "busybox:1"} for name in ("a", "b")])

    def restarts(name: str, count: int) -> Callable[[dict[str, Any]], bool]:
        return lambda pod: bool(container(pod, name).get("restartCount") == count)

    async with scripted_worker(client, node):
        handle = await start_pod(client, node, document)
        uid = (await until(handle, lambda pod: phase(pod) == "Running"))["metadata"]["uid"]
        await node.tell(handle, await node.exits(uid, "a", 1))
        await until(handle, restarts("a", 1))
        await node.tell(handle, await node.exits(uid, "a", 1, ago=8.0))
        await until(handle, lambda pod: "waiting" in container(pod, "a")["state"])

        node.gate["start_container"] = asyncio.Event()
        node.script["start_container"].append(lambda _: None)
        node.fault("start_container", Fault.RUN_CONTAINER_ERROR)
        await node.tell(handle, await node.exits(uid, "b", 1))
        async with asyncio.timeout(30):
            while EventType.EVENT_TYPE_TIMER_FIRED not in [each.event_type for each in await events(handle)]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert node.steps(uid)[-1] == "start_container b", "it rang while the step ran"
        node.gate["start_container"].set()
        await until(handle, restarts("b", 1))
        await until(handle, lambda pod: container(pod, "a")["state"].get("waiting", {}).get("reason") == RUN_ERROR)
        await query_pod(handle)

    begun: dict[int, list[int]] = {}
    for event in await events(handle):
        if event.event_type == EventType.EVENT_TYPE_TIMER_STARTED:
            task = event.timer_started_event_attributes.workflow_task_completed_event_id
            begun.setdefault(task, []).append(event.event_id)
    assert len(begun) == 2
    assert [len(timers) for timers in begun.values()] == [1, 1], begun


async def events(handle: WorkflowHandle[Any, Any]) -> Sequence[HistoryEvent]:
    return (await handle.fetch_history()).events
