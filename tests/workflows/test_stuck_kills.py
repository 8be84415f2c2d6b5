"""A kill that takes too long is shown by an event, a condition and the history, and retried after a back-off.

Holds: A container that does not die is never forgotten.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

from activities.step_attempt import PodFault
from syncpod.lifecycle.kill_cause import AFTER_ITS_GRACE
from syncpod.messages.steps import Fault, StepEvent, StepInput
from tests.agent.waiting import until_asked
from tests.workflows.scripted import ScriptedNode, container, query_pod, until
from tests.workflows.test_pod_workflow import manifest, running

OVERDUE = "syncpod.dev/KillOverdue"


def stick(node: ScriptedNode, step_name: str) -> None:
    """Let the next kill give up, as if it had taken too long."""

    def give_up(_: StepInput) -> None:
        told = StepEvent(type="Warning", reason="ExceededGracePeriod", message="not within the grace period")
        raise PodFault(Fault.EXCEEDED_GRACE_PERIOD, "web did not end within 15 s", told)

    node.script[step_name].append(give_up)


async def held_for_minutes(node: ScriptedNode, handle: Any, kills: int) -> None:
    """Let this many kills give up, and end each back-off but the last, which lasts 160 s after five kills.

    Whoever then comes on within the patience of a test has not waited for it.
    """
    for count in range(1, kills + 1):

        async def is_held(count: int = count) -> bool:
            holds = [hold["subject"] for hold in (await handle.query("plan"))["holds"]]
            return node.steps().count("kill_pod") == count and "kill_pod" in holds

        await until_asked(is_held)
        if count < kills:
            await handle.signal("backoff_expired", {"container": "kill_pod"})
    assert overdue(await query_pod(handle))


def overdue(pod: dict[str, Any]) -> dict[str, Any]:
    return next((each for each in pod["status"]["conditions"] if each["type"] == OVERDUE), {})


async def test_a_pod_that_does_not_end_has_a_condition_until_it_ends(client: Client, node: ScriptedNode) -> None:
    """Row 18, row 21: containers that have not ended are killed again, and reported."""
    handle = await running(client, node, manifest())
    stick(node, "kill_pod")
    stick(node, "kill_pod")
    await handle.signal("delete_pod", {})
    pod = await until(handle, lambda pod: bool(overdue(pod)))
    assert (overdue(pod)["status"], overdue(pod)["reason"]) == ("True", "ExceededGracePeriod")
    assert overdue(pod)["message"] == "web did not end within 15 s"
    events = {(event["type"], event["reason"]) for event in await handle.query("events")}
    assert ("Warning", "ExceededGracePeriod") in events
    plan = await handle.query("plan")
    assert [(hold["subject"], hold["reason"]) for hold in plan["holds"]] == [("kill_pod", "ExceededGracePeriod")]
    await handle.signal("backoff_expired", {"container": "kill_pod"})
    await until(handle, lambda _: node.steps().count("kill_pod") == 2)
    await handle.signal("backoff_expired", {"container": "kill_pod"})
    async with asyncio.timeout(60):
        final = await handle.result()
    assert not overdue(final)
    assert node.steps()[2:] == ["kill_pod"] * 3
    told = [line["outcome"] for line in await handle.query("history") if line["subject"] == "kill_pod"]
    assert "ExceededGracePeriod" in told


async def test_an_exit_during_the_kill_back_off_ends_the_back_off(client: Client, node: ScriptedNode) -> None:
    handle = await running(client, node, manifest())
    uid = (await query_pod(handle))["metadata"]["uid"]
    for _ in range(5):
        stick(node, "kill_pod")
    await handle.signal("delete_pod", {})
    await held_for_minutes(node, handle, 5)
    await node.tell(handle, await node.exits(uid, "web", 137), "ContainerDied")
    async with asyncio.timeout(60):
        await handle.result()


async def test_a_shorter_grace_ends_the_kill_back_off(client: Client, node: ScriptedNode) -> None:
    handle = await running(client, node, manifest())
    for _ in range(5):
        stick(node, "kill_pod")
    await handle.signal("delete_pod", {"gracePeriodSeconds": 30})
    await held_for_minutes(node, handle, 5)
    await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
    async with asyncio.timeout(60):
        await handle.result()


@pytest.mark.parametrize("why", ["deleted", "put out", "past its deadline"])
async def test_a_deletion_does_not_wait_for_the_back_off_of_an_earlier_kill(
    client: Client, node: ScriptedNode, why: str
) -> None:
    """The kill was for a new sandbox. Its back-off, 160 s by then, does not delay the pod's end."""
    document = manifest()
    handle = await running(client, node, document)
    uid = (await query_pod(handle))["metadata"]["uid"]
    for _ in range(5):
        stick(node, "kill_pod")
    await node.tell(handle, await node.loses_sandbox(uid))
    await held_for_minutes(node, handle, 5)
    if why == "deleted":
        await handle.signal("delete_pod", {})
    elif why == "put out":
        await handle.signal("evict", {"uid": uid, "reason": "Evicted", "message": "no room", "gracePeriodSeconds": 1})
    else:
        document["spec"]["activeDeadlineSeconds"] = 1
        await handle.execute_update("apply", document)
    pod = await until(handle, lambda pod: "running" not in container(pod, "web")["state"])
    assert node.steps().count("kill_pod") == 6
    assert not overdue(pod)


async def test_an_overdue_kill_before_a_restart_is_shown_and_retried_by_an_operator(
    client: Client, node: ScriptedNode
) -> None:
    handle = await running(client, node, manifest())
    stick(node, "kill_container")
    await handle.signal("restart", {"container": "web"})
    pod = await until(handle, lambda pod: bool(overdue(pod)))
    assert "running" in container(pod, "web")["state"]
    await handle.signal("backoff_expired", {"container": "web"})
    pod = await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
    assert not overdue(pod)


async def test_every_exit_is_an_event_with_container_exit_code_and_cause(client: Client, node: ScriptedNode) -> None:
    """Also after exits for which the kubelet has none: a spontaneous, a clean and a requested one."""
    handle = await running(client, node, manifest())
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "web", 3))
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
    await node.tell(handle, await node.exits(uid, "web", 0, ago=30.0))
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 2)
    await handle.signal("restart", {})
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 3)
    told = [(e["type"], e["message"], e["container"]) for e in await handle.query("events") if e["reason"] == "Exited"]
    assert told == [
        ("Warning", "Container web exited with code 3 (Error)", "web"),
        ("Normal", "Container web exited with code 0 (Completed)", "web"),
        (
            "Normal",
            f"Container web exited with code 137 (Error): an operator restarts it{AFTER_ITS_GRACE}",
            "web",
        ),
    ]
