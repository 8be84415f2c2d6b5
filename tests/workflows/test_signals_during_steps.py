"""Signals during a step are processed at once, and a pod's end does not wait for the kill of one container.

Holds: A signal that arrives during a step is shown at once.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from activities.step_attempt import delay_between
from tests.workflows.scripted import ScriptedNode, container, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import manifest
from tests.workflows.test_probes import TCP, instance, says

Handle = WorkflowHandle[Any, Any]


async def within_a_kill(client: Client, node: ScriptedNode, **spec: Any) -> Handle:
    """Start a pod of two containers whose `web` fails its liveness probe, and let its kill hang."""
    probed = {"name": "web", "image": "busybox:1", "livenessProbe": TCP}
    other = {"name": "other", "image": "busybox:1", "readinessProbe": TCP}
    handle = await start_pod(client, node, manifest(containers=[probed, other], **spec))
    await says(handle, "other", "readiness", "success")
    await until(handle, lambda pod: bool(container(pod, "other").get("ready")))
    node.gate["kill_container"] = asyncio.Event()
    await says(handle, "web", "liveness", "failure", "no answer")
    await until(handle, lambda _: node.steps()[-1] == "kill_container web")
    return handle


@pytest.mark.parametrize("why", ["deleted", "put out", "past its deadline"])
async def test_a_pod_deletion_does_not_wait_for_the_kill_of_one_container(
    client: Client, node: ScriptedNode, why: str
) -> None:
    """Row 16, row 17, row 19: the pod's own grace period counts, not the longer one of a container's probe."""
    handle = await within_a_kill(client, node, **({"activeDeadlineSeconds": 10} if why == "past its deadline" else {}))
    if why == "deleted":
        await handle.signal("delete_pod", {"gracePeriodSeconds": 1})
    elif why == "put out":
        uid = (await query_pod(handle))["metadata"]["uid"]
        await handle.signal("evict", {"uid": uid, "reason": "Evicted", "message": "low", "gracePeriodSeconds": 1})
    await until(handle, lambda _: "kill_pod" in node.steps())
    kill = next(step for name, step in node.taken if name == "kill_pod")
    assert kill.model_dump(by_alias=True)["graceSeconds"] <= (1 if why != "past its deadline" else 30)
    assert node.steps().count("kill_container web") == 1
    if why != "deleted":
        await handle.signal("delete_pod", {})
    async with asyncio.timeout(60):
        await handle.result()


async def test_readiness_and_exits_are_shown_while_a_container_is_killed(client: Client, node: ScriptedNode) -> None:
    """Row 90, row 91: a kill may take hours, but a lost readiness shows at once."""
    handle = await within_a_kill(client, node)
    await says(handle, "other", "readiness", "failure", "refused")
    pod = await until(handle, lambda pod: not container(pod, "other").get("ready", True))
    assert next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")["status"] != "True"
    await node.tell(handle, await node.exits(pod["metadata"]["uid"], "other", 4), "ContainerDied")
    pod = await until(handle, lambda pod: "terminated" in container(pod, "other").get("state", {}))
    assert node.steps()[-1] == "kill_container web", "nothing is decided before the step has ended"
    node.gate["kill_container"].set()
    await until(handle, lambda pod: container(pod, "other").get("restartCount") == 1)


async def test_a_container_does_not_count_as_started_before_its_post_start_hook_has_ended(
    client: Client, node: ScriptedNode
) -> None:
    """Row 53: until then the pod is neither running nor ready."""
    hook = {"postStart": {"exec": {"command": ["hook"]}}}
    containers = [{"name": "web", "image": "busybox:1", "lifecycle": hook}]
    gate = node.cri.gate = asyncio.Event()
    handle = await start_pod(client, node, manifest(containers=containers))
    await until(handle, lambda _: bool(node.cri.hooks))
    uid = node.taken[-1][1].ref.uid
    assert node.newest(uid, "web").state == "running"
    await node.tell(handle, await node.list(uid), "ContainerStarted")
    pod = await query_pod(handle)
    assert container(pod, "web")["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert pod["status"]["phase"] == "Pending"
    gate.set()
    pod = await until(handle, lambda pod: bool(container(pod, "web").get("ready")))
    assert pod["status"]["phase"] == "Running"


async def test_readiness_is_shown_while_a_pod_ends(client: Client, node: ScriptedNode) -> None:
    """Row 91: readiness probes continue while a pod ends."""
    handle = await start_pod(
        client, node, manifest(containers=[{"name": "web", "image": "busybox:1", "readinessProbe": TCP}])
    )
    await says(handle, "web", "readiness", "success")
    pod = await until(handle, lambda pod: bool(container(pod, "web").get("ready")))
    node.gate["kill_pod"] = asyncio.Event()
    await handle.signal("delete_pod", {})
    await until(handle, lambda _: node.steps()[-1] == "kill_pod")
    payload = {"container": "web", "containerID": instance(pod, "web"), "probe": "readiness", "result": "failure"}
    await handle.signal("probe", payload)
    await until(handle, lambda pod: not container(pod, "web").get("ready", True))
    node.gate["kill_pod"].set()
    async with asyncio.timeout(60):
        await handle.result()


async def test_exits_are_shown_while_other_containers_of_an_evicted_pod_use_their_grace(
    client: Client, node: ScriptedNode
) -> None:
    """Row 17: the pod has failed from the start, and its containers end one by one."""
    containers = [{"name": name, "image": "busybox:1"} for name in ("quick", "slow")]
    handle = await start_pod(client, node, manifest(containers=containers))
    pod = await until(handle, lambda pod: bool(container(pod, "slow").get("state", {}).get("running")))
    uid = pod["metadata"]["uid"]
    node.gate["kill_pod"] = asyncio.Event()
    await handle.signal("evict", {"uid": uid, "reason": "Evicted", "message": "low", "gracePeriodSeconds": 3600})
    await until(handle, lambda _: node.steps()[-1] == "kill_pod")
    await node.tell(handle, await node.exits(uid, "quick", 0), "ContainerDied")
    pod = await until(handle, lambda pod: "terminated" in container(pod, "quick")["state"])
    assert "running" in container(pod, "slow")["state"]
    node.gate["kill_pod"].set()
    await until(handle, lambda pod: "terminated" in container(pod, "slow")["state"])


async def test_an_eviction_during_a_pull_kills_running_containers_at_once(client: Client, node: ScriptedNode) -> None:
    """Running containers are ended without waiting for the pull to be given up."""
    node.absent.add("gone:1")
    node.gate["pull_image"] = asyncio.Event()
    node.deaf.add("pull_image")
    containers = [{"name": "web", "image": "busybox:1"}, {"name": "other", "image": "gone:1"}]
    handle = await start_pod(client, node, manifest(containers=containers))
    pod = await until(handle, lambda pod: "running" in container(pod, "web").get("state", {}))
    uid = pod["metadata"]["uid"]
    await node.tell(handle, await node.list_with(uid, message="woken once"))
    await handle.signal("evict", {"uid": uid, "reason": "Evicted", "message": "low", "gracePeriodSeconds": 1})
    await until(handle, lambda _: "kill_pod" in node.steps())
    node.gate["pull_image"].set()


def test_a_grace_period_continues_without_a_worker() -> None:
    """Row 17: a second try has the rest of the grace period, minus the time in which no worker was there."""
    scheduled = datetime(2026, 1, 1, tzinfo=UTC)
    assert delay_between(scheduled, scheduled + timedelta(seconds=40)) == 40.0
    assert delay_between(scheduled, scheduled - timedelta(seconds=1)) == 0.0


async def test_labels_changed_during_a_volume_update_are_written_too(client: Client, node: ScriptedNode) -> None:
    shown = {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}
    document = manifest(volumes=[{"name": "info", **shown}])
    node.gate["create_sandbox"] = asyncio.Event()
    handle = await start_pod(client, node, document)
    await until(handle, lambda _: node.steps() == ["create_sandbox"])
    document["metadata"]["labels"] = {"tier": "after"}
    await handle.signal("update_pod", document)
    await until(handle, lambda pod: pod["metadata"].get("labels") == {"tier": "after"})
    node.gate["create_sandbox"].set()
    await until(handle, lambda _: "sync_volumes" in node.steps())
    step = next(step for name, step in node.taken if name == "sync_volumes")
    assert step.model_dump(by_alias=True)["pod"]["metadata"]["labels"] == {"tier": "after"}
    await until(handle, lambda pod: bool(container(pod, "web").get("state", {}).get("running")))
    assert node.steps().count("sync_volumes") == 1


async def test_a_restart_of_all_containers_does_not_end_the_pod(client: Client, node: ScriptedNode) -> None:
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    one = {"name": "one", "image": "busybox:1", "restartPolicyRules": [rule], "restartPolicy": "Never"}
    two = {"name": "two", "image": "busybox:1"}
    handle = await start_pod(client, node, manifest(containers=[one, two], restartPolicy="Never"))
    pod = await until(handle, lambda pod: bool(container(pod, "two").get("state", {}).get("running")))
    node.gate["remove_container"] = asyncio.Event()
    await node.tell(handle, await node.exits(pod["metadata"]["uid"], "one", 88), "ContainerDied")
    await until(handle, lambda _: node.steps()[-1].startswith("remove_container"))
    await node.tell(handle, await node.exits(pod["metadata"]["uid"], "two", 137), "ContainerDied")
    await until(handle, lambda pod: bool(container(pod, "two").get("state", {}).get("terminated")))
    node.gate["remove_container"].set()
    await until(handle, lambda pod: container(pod, "two").get("restartCount") == 1)
    assert "kill_pod" not in node.steps()
