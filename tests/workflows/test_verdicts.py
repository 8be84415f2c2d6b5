"""Verdicts on the whole pod: rejection, eviction and the active deadline."""

from __future__ import annotations

import asyncio
import copy

from temporalio.client import Client

from syncpod.messages.steps import Fault, Rejection
from tests.workflows.scripted import ScriptedNode, container, phase, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import manifest, running


async def test_a_rejected_pod_has_failed_and_is_not_retried(client: Client, node: ScriptedNode) -> None:
    """Row 5: rejected, with an event; the status has nothing else (row 100: no conditions)."""
    why = "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 2000"
    node.turn_away(Rejection(reason="OutOfcpu", message=why))
    handle = await start_pod(client, node, manifest())
    pod = await until(handle, lambda pod: phase(pod) == "Failed")
    assert pod["status"]["reason"] == "OutOfcpu"
    assert pod["status"]["message"] == (f"Pod was rejected: {why}")
    assert "conditions" not in pod["status"]
    assert "containerStatuses" not in pod["status"], "as the kubelet has it: kubectl then shows the reason"
    events = await handle.query("events")
    assert [(event["type"], event["reason"]) for event in events][-1] == ("Warning", "OutOfcpu")
    await handle.signal("backoff_expired", {"container": "create_sandbox"})
    await handle.signal("pleg", {"events": [{"type": "RuntimeReady"}]})
    assert phase(await query_pod(handle)) == "Failed"
    assert node.steps() == ["create_sandbox"]
    await handle.signal("delete_pod", {})
    async with asyncio.timeout(60):
        await handle.result()
    assert node.steps() == ["create_sandbox", "kill_pod"]


async def test_an_evicted_pod_ends_within_the_given_grace(client: Client, node: ScriptedNode) -> None:
    """Row 17: the kill of a pod may have a shorter grace period; row 16: an eviction terminates it."""
    handle = await running(client, node, manifest())
    uid = (await query_pod(handle))["metadata"]["uid"]
    why = 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". '
    await handle.signal("evict", {"uid": uid, "reason": "Evicted", "message": why, "gracePeriodSeconds": 1})
    pod = await until(handle, lambda pod: phase(pod) == "Failed")
    assert (pod["status"]["reason"], pod["status"]["message"]) == ("Evicted", why)
    assert container(pod, "web")["state"]["terminated"]["exitCode"] == 137
    kill = next(step for name, step in node.taken if name == "kill_pod")
    assert getattr(kill, "grace_seconds", None) == 1
    assert getattr(kill, "message", "") == "Evicted"
    assert ("Warning", "Evicted") in [(event["type"], event["reason"]) for event in await handle.query("events")]
    await handle.signal("evict", {"uid": uid, "message": "again"})
    assert (await query_pod(handle))["status"]["message"] == why
    assert node.steps() == ["create_sandbox", "start_container web", "kill_pod"]


async def test_a_pod_evicted_for_node_pressure_has_the_disruption_target_condition(
    client: Client, node: ScriptedNode
) -> None:
    """Row 118: DisruptionTarget, and the node may remove its dead containers at once."""
    handle = await running(client, node, manifest())
    uid = (await query_pod(handle))["metadata"]["uid"]
    why = "The node was low on resource: memory. "
    await handle.signal("evict", {"uid": uid, "message": why, "disruption": True})
    pod = await until(handle, lambda pod: phase(pod) == "Failed")
    (target,) = [each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"], target["message"]) == ("True", "TerminationByKubelet", why)
    kill = next(step for name, step in node.taken if name == "kill_pod")
    assert getattr(kill, "evicted", None) is True


async def test_an_eviction_cancels_a_pull(client: Client, node: ScriptedNode) -> None:
    """Row 16: the sync of an ending pod is cancelled."""
    node.absent.add("busybox:1")
    node.gate["pull_image"] = asyncio.Event()
    handle = await start_pod(client, node, manifest())
    pod = await until(handle, lambda _: "pull_image web" in node.steps())
    await handle.signal("evict", {"uid": pod["metadata"]["uid"], "message": "no room"})
    pod = await until(handle, lambda pod: phase(pod) == "Failed")
    assert pod["status"]["reason"] == "Evicted"
    assert "start_container web" not in node.steps()


async def test_an_eviction_of_another_incarnation_is_rejected(client: Client, node: ScriptedNode) -> None:
    handle = await running(client, node, manifest())
    await handle.signal("evict", {"uid": "somebody-else", "message": "no room"})
    await until(handle, lambda _: True)
    events = await handle.query("events")
    assert any(event["reason"] == "Rejected" and "somebody-else" in event["message"] for event in events)
    assert phase(await query_pod(handle)) == "Running"


async def test_changed_labels_lead_to_a_volume_update(client: Client, node: ScriptedNode) -> None:
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    document = manifest(volumes=[{"name": "info", "downwardAPI": {"items": items}}])
    handle = await running(client, node, document)
    changed = copy.deepcopy(document)
    changed["metadata"]["labels"] = {"tier": "front"}
    await handle.execute_update("apply", changed)
    await until(handle, lambda _: "sync_volumes" in node.steps())
    step = next(step for name, step in node.taken if name == "sync_volumes")
    assert step.model_dump(by_alias=True)["pod"]["metadata"]["labels"] == {"tier": "front"}
    await handle.execute_update("apply", changed)
    await until(handle, lambda pod: phase(pod) == "Running")
    assert node.steps() == ["create_sandbox", "start_container web", "sync_volumes"]


async def test_labels_without_downward_files_lead_to_no_step(client: Client, node: ScriptedNode) -> None:
    document = manifest()
    handle = await running(client, node, document)
    document["metadata"]["labels"] = {"tier": "front"}
    await handle.execute_update("apply", document)
    await until(handle, lambda pod: pod["metadata"].get("labels") == {"tier": "front"})
    assert node.steps() == ["create_sandbox", "start_container web"]


async def test_a_pod_is_ended_at_its_active_deadline(client: Client, node: ScriptedNode) -> None:
    """Row 19: DeadlineExceeded, by a durable timer."""
    handle = await running(client, node, manifest(activeDeadlineSeconds=10))  # enough time to be seen running
    pod = await until(handle, lambda pod: phase(pod) == "Failed")
    assert (pod["status"]["reason"], pod["status"]["message"]) == (
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline",
    )
    assert ("Normal", "DeadlineExceeded") in [
        (event["type"], event["reason"]) for event in await handle.query("events")
    ]
    assert node.steps() == ["create_sandbox", "start_container web", "kill_pod"]


async def test_the_active_deadline_applies_during_a_hung_step_and_across_runs(
    client: Client, node: ScriptedNode
) -> None:
    """Row 19: the deadline applies during any step."""
    node.absent.add("gone:1")
    node.gate["pull_image"] = asyncio.Event()
    containers = [{"name": "slow", "image": "gone:1"}, {"name": "web", "image": "busybox:1"}]
    handle = await start_pod(client, node, manifest(activeDeadlineSeconds=3, containers=containers), maxEvents=12)
    latest = client.get_workflow_handle(handle.id)
    pod = await until(latest, lambda pod: phase(pod) == "Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded"


async def test_an_active_deadline_added_later_counts_from_the_pods_start(client: Client, node: ScriptedNode) -> None:
    """Row 19: counted from status.startTime."""
    document = manifest()
    handle = await running(client, node, document)
    document["spec"]["activeDeadlineSeconds"] = 1
    await handle.execute_update("apply", document)
    pod = await until(handle, lambda pod: phase(pod) == "Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded"


async def test_a_pod_that_fails_without_a_sandbox_is_terminated_on_its_node(client: Client, node: ScriptedNode) -> None:
    """Row 19: a deadline that passes before the first container; row 21: every pod is terminated once."""
    node.fault("create_sandbox", Fault.FAILED_CREATE_SANDBOX, "no network")
    handle = await start_pod(client, node, manifest(activeDeadlineSeconds=1))
    pod = await until(handle, lambda pod: "kill_pod" in node.steps() and phase(pod) == "Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded"
    assert container(pod, "web")["state"]["terminated"]["reason"] == "ContainerStatusUnknown", "it waits for nothing"
    name, kill = node.taken[-1]
    assert (name, getattr(kill, "final", None), getattr(kill, "targets", None)) == ("kill_pod", True, ())
    await handle.signal("evict", {"uid": pod["metadata"]["uid"], "message": "late"})
    assert phase(await query_pod(handle)) == "Failed"
    assert node.steps() == ["create_sandbox", "kill_pod"], "once"


async def test_a_pod_whose_sidecar_ends_last_is_terminated_on_its_node(client: Client, node: ScriptedNode) -> None:
    sidecar = {"name": "proxy", "image": "busybox:1", "restartPolicy": "Always"}
    handle = await running(client, node, manifest(restartPolicy="Never", initContainers=[sidecar]))
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "web", 0), "ContainerDied")
    await until(handle, lambda pod: phase(pod) == "Succeeded")
    await until(handle, lambda _: getattr(node.taken[-1][1], "final", False))
    assert node.steps()[3:] == ["kill_pod", "kill_pod"]
