"""A rejected pod from a list of its node is tried again; one that was applied directly has failed for good.

Holds: A rejected pod of a node's list starts as soon as it fits.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from syncpod.messages.steps import CreateSandbox, Rejection
from tests.workflows.scripted import ScriptedNode, container, phase, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import manifest

WHY = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
UID = "0123456789abcdef0123456789abcdef"


def listed() -> dict[str, Any]:
    """Return the document with which the node's workflow starts a pod of a manifest directory."""
    document = manifest()
    notes = {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": UID}
    document["metadata"] = {**document["metadata"], "uid": UID, "annotations": notes}
    return document


async def rejected(client: Client, node: ScriptedNode, document: dict[str, Any]) -> WorkflowHandle[Any, Any]:
    node.turn_away(Rejection(reason="NodePorts", message=WHY))
    handle = await start_pod(client, node, document)
    await until(handle, lambda pod: phase(pod) == "Failed")
    return handle


async def is_admitted(handle: WorkflowHandle[Any, Any], node: ScriptedNode) -> dict[str, Any]:
    pod: dict[str, Any] = await until(handle, lambda pod: phase(pod) == "Running" and container(pod, "web")["ready"])
    assert node.steps() == ["create_sandbox", "create_sandbox", "start_container web"]
    return pod


async def test_it_is_failed_as_by_a_kubelet_until_it_is_admitted(client: Client, node: ScriptedNode) -> None:
    """Row 5: its status until then; and afterwards nothing of the rejection is left but its event."""
    handle = await rejected(client, node, listed())
    status = (await query_pod(handle))["status"]
    assert (status["reason"], status["message"]) == ("NodePorts", f"Pod was rejected: {WHY}")
    assert {"conditions", "containerStatuses", "podIP"}.isdisjoint(status)
    plan = await handle.query("plan")
    assert [(hold["subject"], hold["reason"]) for hold in plan["holds"]] == [("create_sandbox", "NodePorts")]
    await handle.signal("backoff_expired", {"container": "create_sandbox", "appeared": "room on the node"})
    after = (await is_admitted(handle, node))["status"]
    assert {"reason", "message"}.isdisjoint(after)
    assert {each["type"]: each["status"] for each in after["conditions"]}["Ready"] == "True"


async def test_the_end_of_its_back_off_has_the_node_asked_again(client: Client, node: ScriptedNode) -> None:
    handle = await rejected(client, node, listed())
    await handle.signal("backoff_expired", {"container": "create_sandbox", "restart": 0})
    assert node.steps() == ["create_sandbox"], "the node's queue ends only what is over"
    await handle.signal("backoff_expired", {"container": "create_sandbox"})
    await is_admitted(handle, node)


async def test_a_new_worker_has_the_node_asked_again(client: Client, node: ScriptedNode) -> None:
    """Its node may have other labels, or more room."""
    handle = await rejected(client, node, listed())
    await node.tell(handle, await node.list(UID), "Boot", "RuntimeReady")
    await is_admitted(handle, node)


async def test_it_does_not_wait_for_its_back_off_if_it_asks_for_less(client: Client, node: ScriptedNode) -> None:
    document = listed()
    document["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    handle = await rejected(client, node, document)
    await handle.execute_update(
        "resize", {"containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}}}]}, result_type=dict
    )
    await until(handle, lambda pod: phase(pod) == "Running")
    made = [step for name, step in node.taken if name == "create_sandbox"]
    asked = [each.pod.spec.containers[0].resources.requests for each in made if isinstance(each, CreateSandbox)]
    assert asked == [{"cpu": "2"}, {"cpu": "1"}]


async def test_its_deadline_runs_from_its_admission(client: Client, node: ScriptedNode) -> None:
    """A kubelet that starts again counts from there, too; and a pod that has failed fails no second time."""
    document = listed()
    document["spec"]["activeDeadlineSeconds"] = 1
    handle = await rejected(client, node, document)
    await asyncio.sleep(1.2)
    assert (await query_pod(handle))["status"]["reason"] == "NodePorts"
    await handle.signal("backoff_expired", {"container": "create_sandbox"})
    await until(handle, lambda pod: pod["status"].get("reason") == "DeadlineExceeded")
    assert node.steps()[:3] == ["create_sandbox", "create_sandbox", "start_container web"]


async def test_it_can_be_deleted_meanwhile(client: Client, node: ScriptedNode) -> None:
    handle = await rejected(client, node, listed())
    await handle.signal("delete_pod", {})
    async with asyncio.timeout(60):
        result = await handle.result()
    assert result["status"]["reason"] == "NodePorts"
    assert node.steps() == ["create_sandbox", "kill_pod"]


async def test_an_operator_who_restarts_it_reads_what_to_do(client: Client, node: ScriptedNode) -> None:
    handle = await rejected(client, node, listed())
    await handle.signal("restart", {})
    said = [event["message"] for event in await handle.query("events") if event["reason"] == "Rejected"]
    assert said == ["signal restart: the node has not admitted the pod yet: `syncpod retry` asks it again"]


@pytest.mark.parametrize(
    "notes",
    [
        {},
        {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "of another pod"},
        {"kubernetes.io/config.source": "fleet", "kubernetes.io/config.hash": UID},
    ],
    ids=["applied by itself", "a copy of a listed pod", "of a fleet, which replaces it"],
)
async def test_no_other_pod_is_asked_again(client: Client, node: ScriptedNode, notes: dict[str, str]) -> None:
    document = listed()
    document["metadata"]["annotations"] = notes
    handle = await rejected(client, node, document)
    await node.tell(handle, await node.list(UID), "Boot")
    assert (await handle.query("plan"))["holds"] == []
    assert phase(await query_pod(handle)) == "Failed"
    assert node.steps() == ["create_sandbox"]


async def test_a_final_rejection_is_not_asked_again(client: Client, node: ScriptedNode) -> None:
    """As of a pod for another operating system: nothing that could change would admit it."""

    node.turn_away(Rejection(reason="PodOSNotSupported", message=WHY, final=True))
    handle = await start_pod(client, node, listed())
    await until(handle, lambda pod: phase(pod) == "Failed")
    assert (await handle.query("plan"))["holds"] == []
