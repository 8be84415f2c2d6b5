"""A restart of all containers has one back-off as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client

from syncpod.messages.steps import RemoveContainers
from tests.workflows.scripted import ScriptedNode, container, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import manifest, running

RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
SUBJECT = "restart_all_containers"


def restarting(pod: dict[str, Any]) -> str:
    (found,) = [each["status"] for each in pod["status"]["conditions"] if each["type"] == "AllContainersRestarting"]
    return str(found)


def looping() -> dict[str, Any]:
    web = {"name": "web", "image": "busybox:1", "restartPolicy": "Never", "restartPolicyRules": [RULE]}
    init = {"name": "init", "image": "busybox:1"}
    return manifest(
        restartPolicy="Always", initContainers=[init], containers=[web, {"name": "other", "image": "busybox:1"}]
    )


async def came_up(client: Client, node: ScriptedNode, handle: Any, restarts: int) -> str:
    """Let this round's init container end; returns the pod's UID once all containers run."""
    pod = await until(
        handle,
        lambda pod: (
            container(pod, "init").get("restartCount") == restarts and "running" in container(pod, "init")["state"]
        ),
    )
    uid = str(pod["metadata"]["uid"])
    await node.tell(handle, await node.exits(uid, "init", 0))
    await until(
        handle,
        lambda pod: all(
            container(pod, name).get("restartCount") == restarts and "running" in container(pod, name)["state"]
            for name in ("web", "other")
        ),
    )
    return uid


async def rang(handle: Any) -> list[str]:
    """The summaries of the timers that were set and have fired."""
    events = [event async for event in handle.fetch_history_events()]
    set_ = {
        event.event_id: event.user_metadata.summary.data.decode()
        for event in events
        if event.HasField("timer_started_event_attributes")
    }
    return [
        set_[event.timer_fired_event_attributes.started_event_id]
        for event in events
        if event.HasField("timer_fired_event_attributes")
    ]


async def held_back(client: Client, node: ScriptedNode) -> tuple[Any, str]:
    """A pod in the back-off of its second restart of all containers; and its UID."""
    handle = await start_pod(client, node, looping())
    uid = await came_up(client, node, handle, 0)
    await node.tell(handle, await node.exits(uid, "web", 42))
    await came_up(client, node, handle, 1)
    await node.tell(handle, await node.exits(uid, "web", 42))
    await until(handle, lambda pod: "CrashLoopBackOff" in str(container(pod, "other")["state"]))
    return handle, uid


async def test_repeated_restarts_of_all_containers_back_off_as_a_whole(client: Client, node: ScriptedNode) -> None:
    """Row 75: with a back-off, which the kubelet lacks; the condition stays True meanwhile."""
    handle = await start_pod(client, node, looping())
    uid = await came_up(client, node, handle, 0)
    await node.tell(handle, await node.exits(uid, "web", 42))
    await came_up(client, node, handle, 1)
    assert restarting(await query_pod(handle)) == "False", "the first time nothing holds it"
    (removal,) = [step for _, step in node.taken if isinstance(step, RemoveContainers)]
    assert (bool(removal.kill), removal.cause) == (True, "rule"), "the journal hears of it by the step alone"
    for round_, delay in ((2, "10s"), (3, "20s")):
        await node.tell(handle, await node.exits(uid, "web", 42))
        pod = await until(handle, lambda pod: "CrashLoopBackOff" in str(container(pod, "other")["state"]))
        assert restarting(pod) == "True"
        assert node.containers(uid) == [], "nothing runs meanwhile"
        why = container(pod, "web")["state"]["waiting"]
        assert why["reason"] == "CrashLoopBackOff"
        assert why["message"].startswith(f"back-off {delay} restarting all containers of pod=")
        assert why["message"].endswith(": web exited with code 42")
        assert container(pod, "other")["lastState"]["terminated"]["reason"] == "RestartingAllContainers"
        plan = await handle.query("plan")
        assert [hold["subject"] for hold in plan["holds"]] == [SUBJECT]
        await handle.signal("backoff_expired", {"container": SUBJECT, "restart": round_ - 1})
        await handle.signal("backoff_expired", {"container": SUBJECT})
        await came_up(client, node, handle, round_)
        assert restarting(await query_pod(handle)) == "False"
    told = [event for event in await handle.query("events") if event["reason"] == "BackOff"]
    assert [(event["container"], event["count"]) for event in told] == [("", 2)]


@pytest.mark.parametrize(
    ("signal", "subject"), [("restart", "other"), ("backoff_expired", "other"), ("backoff_expired", SUBJECT)]
)
async def test_an_operator_retry_ends_the_back_off_of_all(
    client: Client, node: ScriptedNode, signal: str, subject: str
) -> None:
    handle, uid = await held_back(client, node)
    await handle.signal("backoff_expired", {"container": "other", "appeared": 'secret "password"'})
    await handle.signal("backoff_expired", {"container": "other", "restart": 2})
    pod = await query_pod(handle)
    assert restarting(pod) == "True", "only an operator ends it"
    await handle.signal(signal, {"container": subject})
    pod = await until(handle, lambda pod: "running" in container(pod, "init")["state"])
    assert (container(pod, "init")["restartCount"], restarting(pod)) == (2, "False")
    assert await rang(handle) == [], "the back-off was ended, and did not end by itself"
    assert node.containers(uid) == ["init"]
    told = [each for each in await handle.query("history") if each["kind"] == "signal" and "operator" in each["reason"]]
    assert [each["fact"] for each in told] == ["back-off of all ended"], "all containers had waited for it"


async def test_an_ephemeral_container_starts_during_the_back_off_of_a_restart_of_all(
    client: Client, node: ScriptedNode
) -> None:
    """An ephemeral container is not part of the round: it starts at once, and restarts nothing."""
    handle, uid = await held_back(client, node)
    await handle.execute_update("add_ephemeral_container", {"name": "debug", "image": "busybox:1"})
    pod = await until(handle, lambda pod: "running" in container(pod, "debug").get("state", {}))
    assert "CrashLoopBackOff" in str(container(pod, "other")["state"])
    assert restarting(pod) == "True"
    assert node.containers(uid) == ["debug"]
    await handle.signal("backoff_expired", {"container": SUBJECT})
    await until(handle, lambda pod: container(pod, "init").get("restartCount") == 2)


async def test_the_back_off_of_a_restart_of_all_ends_by_itself_and_across_runs(
    client: Client, node: ScriptedNode
) -> None:
    web = {"name": "web", "image": "busybox:1", "restartPolicy": "Never", "restartPolicyRules": [RULE]}
    handle = await running(client, node, manifest(containers=[web]), maxEvents=20)
    latest = client.get_workflow_handle(handle.id)
    uid = (await query_pod(latest))["metadata"]["uid"]
    await node.tell(latest, await node.exits(uid, "web", 42))
    await until(latest, lambda pod: container(pod, "web").get("restartCount") == 1)
    await until(latest, lambda pod: "running" in container(pod, "web")["state"])
    await node.tell(latest, await node.exits(uid, "web", 42, ago=8.0))
    await until(latest, lambda pod: "CrashLoopBackOff" in str(container(pod, "web")["state"]))
    await until(latest, lambda pod: "running" in container(pod, "web")["state"])
    assert container(await query_pod(latest), "web")["restartCount"] == 2
