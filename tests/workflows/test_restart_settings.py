"""A pod's restart settings in the whole loop: back-off, exempt exits, and a limit that stops or fails the pod."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError

from tests.workflows.scripted import ScriptedNode, container, phase, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import manifest, running

PREFIX = "syncpod.dev/"
LONG_AGO = 4000.0
"""Seconds: longer than any back-off here."""


def governed(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A pod with these annotations."""
    document = manifest(**spec)
    document["metadata"]["annotations"] = {f"{PREFIX}{name}": value for name, value in annotations.items()}
    return document


async def up(client: Client, node: ScriptedNode, document: dict[str, Any]) -> tuple[Any, str]:
    """A running pod whose run continues as new again and again, and its UID."""
    handle = await running(client, node, document, maxEvents=30)
    handle = client.get_workflow_handle(handle.id)
    return handle, (await query_pod(handle))["metadata"]["uid"]


async def crash(handle: Any, node: ScriptedNode, uid: str, name: str, count: int, code: int = 1) -> dict[str, Any]:
    """Let a container crash this often, each time long enough ago that no back-off holds it; returns the pod."""
    before = container(await query_pod(handle), name)["restartCount"]
    pod: dict[str, Any] = {}
    for restart in range(before + 1, before + 1 + count):
        await node.tell(handle, await node.exits(uid, name, code, ago=LONG_AGO))
        pod = await until(handle, lambda pod, n=restart: container(pod, name)["restartCount"] == n)  # type: ignore[misc]
    return pod


def waiting(pod: dict[str, Any], name: str = "web") -> dict[str, Any]:
    why: dict[str, Any] = container(pod, name).get("state", {}).get("waiting", {})
    return why


async def told(handle: Any, reason: str) -> list[tuple[str, str]]:
    return [(one["container"], one["message"]) for one in await handle.query("events") if one["reason"] == reason]


async def test_the_pods_back_off_settings_apply_and_changes_take_effect_at_once(
    client: Client, node: ScriptedNode
) -> None:
    document = governed({"backoff-initial": "50s", "backoff-factor": "1.5"})
    handle, uid = await up(client, node, document)
    await crash(handle, node, uid, "web", 2)
    await node.tell(handle, await node.exits(uid, "web", 1))
    pod = await until(handle, lambda pod: bool(waiting(pod)))
    assert waiting(pod)["message"].startswith("back-off 1m15s restarting failed container=web")

    wrong = copy.deepcopy(document)
    wrong["metadata"]["annotations"][f"{PREFIX}backoff-max"] = "soon"
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("apply", wrong)
    why = "metadata.annotations[syncpod.dev/backoff-max]: must be a duration such as 10s or 1m30s, is 'soon'"
    assert why in str(refused.value.cause)
    await handle.signal("update_pod", wrong)
    assert f"signal update_pod: {why}" in [message for _, message in await told(handle, "Rejected")]

    changed = copy.deepcopy(document)
    changed["metadata"]["annotations"] = {f"{PREFIX}backoff-initial": "1s", f"{PREFIX}backoff-max": "2s"}
    plan = await handle.query("plan", changed)
    assert [hold["message"].split(" restarting")[0] for hold in plan["holds"]] in ([], ["back-off 2s"])
    await handle.execute_update("apply", changed)
    await until(handle, lambda pod: container(pod, "web")["restartCount"] == 3)


async def test_a_restart_limit_holds_a_container_until_an_operator_retries(client: Client, node: ScriptedNode) -> None:
    two = [{"name": name, "image": "busybox:1"} for name in ("web", "other")]
    handle, uid = await up(client, node, governed({"restart-limit": "2"}, containers=two))
    await crash(handle, node, uid, "web", 2)
    await node.tell(handle, await node.exits(uid, "web", 1, ago=LONG_AGO))
    pod = await until(handle, lambda pod: bool(waiting(pod)))
    why = (
        "restarted container web 2 times in a row, which is the pod's syncpod.dev/restart-limit; waits for "
        "`syncpod retry`"
    )
    assert waiting(pod) == {"reason": "RestartLimitReached", "message": why}
    assert (phase(pod), "running" in container(pod, "other")["state"]) == ("Running", True)
    (hold,) = (await handle.query("plan"))["holds"]
    assert hold == {"subject": "web", "until": None, "reason": "RestartLimitReached", "message": why}
    assert await told(handle, "RestartLimitReached") == [("web", why)]

    await handle.signal("backoff_expired", {"container": "web", "restart": 3})  # of the earlier back-off
    await crash(handle, node, uid, "other", 1)
    assert waiting(await query_pod(handle))["reason"] == "RestartLimitReached"
    await handle.signal("backoff_expired", {"container": "web"})
    await until(handle, lambda pod: container(pod, "web")["restartCount"] == 3)
    await crash(handle, node, uid, "web", 2)
    await node.tell(handle, await node.exits(uid, "web", 1, ago=LONG_AGO))
    await until(handle, lambda pod: waiting(pod).get("reason") == "RestartLimitReached")
    await handle.signal("restart", {"container": "web"})
    await until(handle, lambda pod: container(pod, "web")["restartCount"] == 6)
    await crash(handle, node, uid, "web", 2)


async def test_a_restart_limit_may_fail_the_pod_with_a_reason(client: Client, node: ScriptedNode) -> None:
    init = {"name": "init", "image": "busybox:1", "restartPolicy": "Always"}
    document = governed({"restart-limit": "1", "restart-limit-action": "fail"}, initContainers=[init])
    handle, uid = await up(client, node, document)
    await crash(handle, node, uid, "init", 1)
    await node.tell(handle, await node.exits(uid, "init", 1, ago=LONG_AGO))
    pod = await until(handle, lambda pod: phase(pod) == "Failed")
    why = "restarted container init once in a row, which is the pod's syncpod.dev/restart-limit"
    assert (pod["status"]["reason"], pod["status"]["message"]) == ("RestartLimitReached", why)
    assert await told(handle, "RestartLimitReached") == [("", why)]
    assert node.steps(uid)[-1] == "kill_pod"
    assert (await handle.query("plan"))["steps"] == []


async def test_a_restart_limit_holds_init_containers_too(client: Client, node: ScriptedNode) -> None:
    document = governed({"restart-limit": "0"}, initContainers=[{"name": "init", "image": "busybox:1"}])
    handle = await start_pod(client, node, document)
    pod = await until(handle, lambda pod: "running" in container(pod, "init").get("state", {}))
    uid = pod["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "init", 1))
    pod = await until(handle, lambda pod: waiting(pod, "init").get("reason") == "RestartLimitReached")
    assert phase(pod) == "Pending"
    await handle.signal("backoff_expired", {"container": "init"})
    await until(handle, lambda pod: container(pod, "init").get("restartCount") == 1)
    await node.tell(handle, await node.exits(uid, "init", 0))
    await until(handle, lambda pod: phase(pod) == "Running")


async def test_exempt_exits_restart_at_once_unless_too_frequent(client: Client, node: ScriptedNode) -> None:
    handle, uid = await up(client, node, governed({"backoff-exempt-exit-codes": "0,7", "restart-limit": "1"}))
    for restart, code in enumerate((0, 7, 0, 7, 0), 1):
        await node.tell(handle, await node.exits(uid, "web", code))
        await until(handle, lambda pod, n=restart: container(pod, "web")["restartCount"] == n)  # type: ignore[misc]
    await node.tell(handle, await node.exits(uid, "web", 0))
    pod = await until(handle, lambda pod: bool(waiting(pod)))
    assert waiting(pod)["reason"] == "CrashLoopBackOff"
    assert waiting(pod)["message"].endswith("it exits with 0 too often to be restarted at once each time")
    await handle.signal("backoff_expired", {"container": "web"})
    await until(handle, lambda pod: container(pod, "web")["restartCount"] == 6)
    await crash(handle, node, uid, "web", 1)
    await node.tell(handle, await node.exits(uid, "web", 1, ago=LONG_AGO))
    await until(handle, lambda pod: waiting(pod).get("reason") == "RestartLimitReached")


async def test_a_restart_limit_holds_a_restart_of_all_containers(client: Client, node: ScriptedNode) -> None:
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    web = {"name": "web", "image": "busybox:1", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    other = {"name": "other", "image": "busybox:1"}
    handle, uid = await up(client, node, governed({"restart-limit": "1"}, containers=[web, other]))
    await crash(handle, node, uid, "web", 1, code=42)
    await until(handle, lambda pod: "running" in container(pod, "other")["state"])
    await node.tell(handle, await node.exits(uid, "web", 42, ago=LONG_AGO))
    pod = await until(handle, lambda pod: waiting(pod, "other").get("reason") == "RestartLimitReached")
    why = "restarted all containers together once in a row, which is the pod's syncpod.dev/restart-limit; waits for "
    assert waiting(pod) == {"reason": "RestartLimitReached", "message": f"{why}`syncpod retry`"}
    await handle.signal("backoff_expired", {"container": "restart_all_containers"})
    await until(handle, lambda pod: container(pod, "other")["restartCount"] == 2)
