"""The signal `set_condition`: readiness gates, and other conditions that others set on a pod."""

from __future__ import annotations

from typing import Any

from temporalio.client import Client

from tests.workflows.scripted import ScriptedNode, in_another_run, query_pod, until
from tests.workflows.test_pod_workflow import is_ready, manifest, running

GATE = "example.com/load-balanced"


def condition(pod: dict[str, Any], type_: str) -> dict[str, Any]:
    return next((each for each in pod["status"]["conditions"] if each["type"] == type_), {})


async def test_a_pod_with_a_readiness_gate_becomes_ready_with_its_condition(client: Client, node: ScriptedNode) -> None:
    """Row 100: Ready with ReadinessGatesNotReady, the transition time, and over continue-as-new."""
    document = manifest(readinessGates=[{"conditionType": GATE}])
    handle = await running(client, node, document, maxEvents=30)
    latest = client.get_workflow_handle(handle.id)
    pod = await until(latest, lambda pod: condition(pod, "ContainersReady").get("status") == "True")
    assert condition(pod, "Ready")["reason"] == "ReadinessGatesNotReady"
    assert condition(pod, "Ready")["message"] == (
        f'corresponding condition of pod readiness gate "{GATE}" does not exist.'
    )
    await latest.signal("set_condition", {"type": GATE, "status": "False", "reason": "Draining"})
    pod = await until(latest, lambda pod: bool(condition(pod, GATE)))
    since = condition(pod, GATE)["lastTransitionTime"]
    await latest.signal("set_condition", {"type": GATE, "status": "False", "reason": "Waiting"})
    pod = await until(latest, lambda pod: condition(pod, GATE).get("reason") == "Waiting")
    assert condition(pod, GATE)["lastTransitionTime"] == since
    assert condition(pod, GATE)["observedGeneration"] == 1
    await latest.signal("set_condition", {"type": GATE, "status": "True"})
    await until(latest, is_ready)
    uid = pod["metadata"]["uid"]
    for code in (1, 2, 3):  # on to another run
        await node.tell(latest, await node.exits(uid, "web", code, ago=400.0))
        await until(latest, lambda pod, n=code: pod["status"]["containerStatuses"][0]["restartCount"] == n)  # type: ignore[misc]
    pod = await until(latest, is_ready)
    assert condition(pod, GATE)["status"] == "True"
    await in_another_run(latest, handle.result_run_id)


async def test_reserved_conditions_are_rejected(client: Client, node: ScriptedNode) -> None:
    handle = await running(client, node, manifest())
    for payload, problem in (
        ({"type": "Ready", "status": "False"}, "type: Ready is the node's own to set"),
        ({"type": "PodResizePending", "status": "True"}, "type: PodResizePending is the node's own to set"),
        ({"type": "not a name", "status": "True"}, "type: must "),
        ({"type": GATE, "status": "yes"}, "status: "),
        ({"type": GATE, "status": "True", "message": "x" * 5000}, "message: must be no more than 4096 bytes"),
    ):
        await handle.signal("set_condition", payload)
        await until(handle, lambda _: True)
        rejected = [event["message"] for event in await handle.query("events") if event["reason"] == "Rejected"]
        assert rejected[-1].startswith(f"signal set_condition: {problem}"), rejected[-1]
    for index in range(65):
        await handle.signal("set_condition", {"type": f"example.com/c{index}", "status": "True"})
    await until(handle, lambda pod: bool(condition(pod, "example.com/c63")))
    pod = await query_pod(handle)
    assert not condition(pod, "example.com/c64")
    assert is_ready(pod)
