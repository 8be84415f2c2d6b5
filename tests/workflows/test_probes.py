"""Probe results decide which containers are ready, started and killed.

Holds: Only a changed probe result is signalled.
"""

from __future__ import annotations

from typing import Any

from temporalio.client import Client

from tests.workflows.scripted import ScriptedNode, container, in_another_run, phase, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import is_ready, manifest

TCP = {"tcpSocket": {"port": 80}}


def instance(pod: dict[str, Any], name: str) -> str:
    return str(container(pod, name).get("containerID", "")).rpartition("://")[2]


async def says(handle: Any, name: str, probe: str, result: str, message: str = "") -> None:
    pod = await until(handle, lambda pod: bool(container(pod, name).get("state", {}).get("running")))
    payload = {"container": name, "containerID": instance(pod, name), "probe": probe, "result": result}
    await handle.signal("probe", {**payload, "message": message})


async def test_a_pod_becomes_ready_with_its_readiness_probe(client: Client, node: ScriptedNode) -> None:
    """Row 90: readiness changes the status at once, and decides no step."""
    handle = await start_pod(
        client, node, manifest(containers=[{"name": "web", "image": "busybox:1", "readinessProbe": TCP}])
    )
    pod = await until(handle, lambda pod: phase(pod) == "Running")
    assert (container(pod, "web")["ready"], container(pod, "web")["started"]) == (False, True)
    await says(handle, "web", "readiness", "success")
    await until(handle, is_ready)
    await says(handle, "web", "readiness", "failure", "dial tcp: connect: connection refused")
    await until(handle, lambda pod: not is_ready(pod))
    events = await handle.query("events")
    assert [(event["reason"], event["message"]) for event in events][-1] == (
        "Unhealthy",
        "Readiness probe failed: dial tcp: connect: connection refused",
    )
    assert node.steps() == ["create_sandbox", "start_container web"]


async def test_a_failed_liveness_probe_restarts_the_container_with_the_probes_grace(
    client: Client, node: ScriptedNode
) -> None:
    probe = {**TCP, "terminationGracePeriodSeconds": 7}
    handle = await start_pod(
        client, node, manifest(containers=[{"name": "web", "image": "busybox:1", "livenessProbe": probe}])
    )
    await says(handle, "web", "liveness", "failure", "no answer")
    pod = await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
    assert container(pod, "web")["started"]
    assert node.steps() == ["create_sandbox", "start_container web", "kill_container web", "start_container web"]
    kill = next(step for name, step in node.taken if name == "kill_container")
    assert kill.model_dump(by_alias=True)["target"]["graceSeconds"] == 7
    assert kill.model_dump(by_alias=True)["reason"] == "LivenessProbe"
    history = await handle.query("history")
    assert "failed liveness probe" in next(line["reason"] for line in history if line["subject"] == "kill_container")


async def test_containers_after_a_sidecar_wait_for_its_startup_probe(client: Client, node: ScriptedNode) -> None:
    """Row 84: a sidecar has started when its startup probe says so."""
    sidecar = {"name": "proxy", "image": "busybox:1", "restartPolicy": "Always", "startupProbe": TCP}
    handle = await start_pod(client, node, manifest(initContainers=[sidecar]))
    await until(handle, lambda pod: bool(container(pod, "proxy").get("state", {}).get("running")))
    assert node.steps() == ["create_sandbox", "start_init_container proxy"]
    await says(handle, "proxy", "startup", "success")
    await until(handle, is_ready)
    assert node.steps() == ["create_sandbox", "start_init_container proxy", "start_container web"]


async def test_a_probe_error_is_an_event_and_not_a_result(client: Client, node: ScriptedNode) -> None:
    """Row 85: an error is not a result, and emits Unhealthy."""
    handle = await start_pod(
        client, node, manifest(containers=[{"name": "web", "image": "busybox:1", "livenessProbe": TCP}])
    )
    await says(handle, "web", "liveness", "unknown", "couldn't find port: nowhere")
    pod = await until(handle, is_ready)
    later = {"container": "web", "containerID": instance(pod, "web"), "probe": "liveness", "result": "unknown"}
    await handle.signal("probe", {**later, "message": "couldn't find port: nowhere", "errors": 9})
    events = [
        (each["message"], each["count"]) for each in await handle.query("events") if each["reason"] == "Unhealthy"
    ]
    assert events == [("Liveness probe errored and resulted in unknown state: couldn't find port: nowhere", 10)]
    assert container(pod, "web")["restartCount"] == 0


async def test_probe_failures_are_counted_in_one_event_and_change_nothing_before_the_threshold(
    client: Client, node: ScriptedNode
) -> None:
    """Row 85: Unhealthy from the first failure, with its count."""
    handle = await start_pod(
        client, node, manifest(containers=[{"name": "web", "image": "busybox:1", "livenessProbe": TCP}])
    )
    pod = await until(handle, is_ready)
    told = {"container": "web", "containerID": instance(pod, "web"), "probe": "liveness"}
    await handle.signal("probe", {**told, "result": "unknown", "message": "refused", "failures": 1})
    await handle.signal("probe", {**told, "result": "unknown", "message": "refused", "failures": 9})
    await handle.signal("probe", {**told, "result": "success", "failures": 2, "failure": "refused"})
    await handle.signal("probe", {**told, "result": "unknown", "failures": -1})

    async def unhealthy() -> list[tuple[str, int]]:
        events = await handle.query("events")
        return [(event["message"], event["count"]) for event in events if event["reason"] == "Unhealthy"]

    assert await unhealthy() == [("Liveness probe failed: refused", 12)]
    pod = await query_pod(handle)
    assert (container(pod, "web")["restartCount"], is_ready(pod)) == (0, True)
    assert [event["reason"] for event in await handle.query("events")][-1] == "Rejected"


async def test_probe_results_survive_continue_as_new(client: Client, node: ScriptedNode) -> None:
    handle = await start_pod(
        client,
        node,
        manifest(containers=[{"name": "web", "image": "busybox:1", "readinessProbe": TCP}]),
        maxEvents=16,
    )
    first = handle.result_run_id
    latest = client.get_workflow_handle(handle.id)
    await says(latest, "web", "readiness", "success")
    await until(latest, is_ready)
    for _ in range(4):
        await latest.signal("pleg", {})
    await until(latest, is_ready)
    await in_another_run(latest, first)
    assert is_ready(await query_pod(latest))


async def test_a_result_of_an_unknown_probe_is_rejected(client: Client, node: ScriptedNode) -> None:
    handle = await start_pod(client, node, manifest())
    await says(handle, "web", "liveness", "failure")
    await handle.signal("probe", {"container": "web", "containerID": "x", "probe": "liveness", "result": "who knows"})
    pod = await until(handle, lambda pod: phase(pod) == "Running")
    assert container(pod, "web")["restartCount"] == 0
    rejected = [event for event in await handle.query("events") if event["reason"] == "Rejected"]
    assert len(rejected) == 2
