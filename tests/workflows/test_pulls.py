"""A pull runs concurrently with the pod's other steps and delays only its own container.

Holds: A pull delays only its own container.
Holds: No limit of the server is exceeded.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError

from syncpod.messages.steps import Fault
from tests.workflows.scripted import ScriptedNode, container, phase, start_pod, until
from tests.workflows.test_pod_workflow import is_ready, manifest


def two(**slow: Any) -> list[dict[str, Any]]:
    """A container without its image, and one that can start at once."""
    return [{"name": "slow", "image": "gone:1", **slow}, {"name": "quick", "image": "busybox:1"}]


def runs(pod: dict[str, Any], name: str) -> bool:
    return bool(container(pod, name).get("state", {}).get("running"))


async def test_other_containers_start_and_restart_while_an_image_is_pulled(client: Client, node: ScriptedNode) -> None:
    node.absent.add("gone:1")
    node.gate["pull_image"] = asyncio.Event()
    handle = await start_pod(client, node, manifest(containers=two()))
    pod = await until(handle, lambda pod: runs(pod, "quick"))
    uid = pod["metadata"]["uid"]
    assert container(pod, "slow")["state"]["waiting"]["reason"] == "ContainerCreating"
    await node.tell(handle, await node.exits(uid, "quick", 1), "ContainerDied")
    await until(handle, lambda pod: container(pod, "quick").get("restartCount") == 1 and runs(pod, "quick"))
    node.gate["pull_image"].set()
    await until(handle, is_ready)
    assert node.steps(uid) == [
        "create_sandbox",
        "pull_image slow",
        "start_container quick",
        "start_container quick",
        "start_container slow",
    ]


async def test_containers_after_an_init_container_wait_for_its_pull(client: Client, node: ScriptedNode) -> None:
    node.absent.add("gone:1")
    node.gate["pull_image"] = asyncio.Event()
    document = manifest(initContainers=[{"name": "first", "image": "gone:1"}])
    handle = await start_pod(client, node, document)
    pod = await until(handle, lambda _: "pull_image first" in node.steps())
    assert phase(pod) == "Pending"
    node.gate["pull_image"].set()
    await until(handle, lambda pod: runs(pod, "first"))
    assert node.steps() == ["create_sandbox", "pull_image first", "start_init_container first"]


async def test_a_pull_of_an_image_no_longer_needed_is_cancelled(client: Client, node: ScriptedNode) -> None:
    node.absent.add("gone:1")
    node.gate["pull_image"] = asyncio.Event()
    document = manifest(containers=two())
    handle = await start_pod(client, node, document)
    await until(handle, lambda pod: runs(pod, "quick"))
    document["spec"]["containers"][0]["image"] = "busybox:2"
    await handle.execute_update("apply", document)
    await until(handle, is_ready)
    assert not node.gate["pull_image"].is_set(), "nobody waits for the old pull"
    assert node.steps()[-1] == "start_container slow"


async def test_a_pod_is_deleted_while_two_pulls_hang(client: Client, node: ScriptedNode) -> None:
    node.absent |= {"gone:1", "gone:2"}
    node.gate["pull_image"] = asyncio.Event()
    document = manifest(containers=[*two(), {"name": "other", "image": "gone:2"}])
    handle = await start_pod(client, node, document)
    await until(handle, lambda pod: runs(pod, "quick"))
    await until(handle, lambda _: node.steps().count("pull_image slow") + node.steps().count("pull_image other") == 2)
    await handle.signal("delete_pod", {"gracePeriodSeconds": 1})
    async with asyncio.timeout(60):
        await handle.result()
    assert node.steps()[-1] == "kill_pod"


async def test_a_run_does_not_continue_as_new_during_a_pull(client: Client, node: ScriptedNode) -> None:
    node.absent.add("gone:1")
    node.gate["pull_image"] = asyncio.Event()
    handle = await start_pod(client, node, manifest(containers=two()), maxEvents=12)
    latest = client.get_workflow_handle(handle.id)
    await until(latest, lambda pod: runs(pod, "quick"))
    first = (await latest.describe()).run_id
    assert first == handle.result_run_id
    node.gate["pull_image"].set()
    await until(latest, is_ready)
    assert node.steps() == ["create_sandbox", "pull_image slow", "start_container quick", "start_container slow"]


@pytest.mark.parametrize(
    ("own", "volumes", "pulls"), [("Never", "IfNotPresent", 0), ("Never", "Always", 1), ("IfNotPresent", "Always", 1)]
)
async def test_an_image_volume_that_is_always_pulled_is_pulled_before_each_start(
    client: Client, node: ScriptedNode, own: str, volumes: str, pulls: int
) -> None:
    web = {
        "name": "web",
        "image": "busybox:1",
        "imagePullPolicy": own,
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volume = {"name": "data", "image": {"reference": "data:1", "pullPolicy": volumes}}
    handle = await start_pod(client, node, manifest(containers=[web], volumes=[volume]))
    pod = await until(handle, is_ready)
    uid = pod["metadata"]["uid"]
    assert node.steps(uid) == ["create_sandbox", *["pull_image web"] * pulls, "start_container web"]
    await node.tell(handle, await node.exits(uid, "web", 1), "ContainerDied")
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1 and runs(pod, "web"))
    assert node.steps(uid)[-1 - pulls :] == [*["pull_image web"] * pulls, "start_container web"]


async def test_parallel_pulls_of_a_maximal_pod_fit_in_a_workflow_task(client: Client, node: ScriptedNode) -> None:
    """Each pull gets the whole pod, so all at once would exceed what a server accepts from one workflow task."""
    names = [f"c{number}" for number in range(17)]
    node.absent |= {f"gone:{name}" for name in names}
    document = manifest(containers=[{"name": name, "image": f"gone:{name}"} for name in names])
    document["spec"]["containers"][0]["args"] = ["x" * 100_000] * 5  # Linux takes no word of 500 KB
    handle = await start_pod(client, node, document)
    await until(handle, is_ready)
    assert sorted(step for step in node.steps() if step.startswith("pull")) == sorted(f"pull_image {n}" for n in names)


async def test_ephemeral_containers_cannot_exceed_the_pod_size_limit(client: Client, node: ScriptedNode) -> None:
    document = manifest()
    document["spec"]["containers"][0]["args"] = ["x" * 100_000] * 5  # Linux takes no word of 500 KB
    handle = await start_pod(client, node, document)
    await until(handle, is_ready)
    debugger = {"name": "debug", "image": "busybox:1", "args": ["x" * 30_000]}
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("add_ephemeral_container", debugger)
    assert "pod: must be no more than 524288 bytes as JSON" in str(refused.value.cause)
    await handle.execute_update("add_ephemeral_container", {**debugger, "args": []})
    await until(handle, lambda pod: runs(pod, "debug"))


@pytest.mark.parametrize("fault", [Fault.INVALID_IMAGE_NAME, Fault.IMAGE_INSPECT_ERROR])
async def test_an_image_that_was_never_pulled_does_not_wait_with_image_pull_back_off(
    client: Client, node: ScriptedNode, fault: Fault
) -> None:
    """Row 63: the fault stays the waiting reason, also for another container with the same image."""
    node.absent |= {"gone:1"}
    node.fault("pull_image", fault, "it failed")
    handle = await start_pod(client, node, manifest(containers=[{"name": "a", "image": "gone:1"}]))
    held = {"reason": fault.value, "message": "it failed"}
    await until(handle, lambda pod: container(pod, "a").get("state", {}).get("waiting") == held)
    await handle.execute_update("add_ephemeral_container", {"name": "b", "image": "gone:1"})
    await until(handle, lambda pod: container(pod, "b").get("state", {}).get("waiting") == held)
    assert "pull_image b" not in node.steps()
    assert "BackOff" not in {event["reason"] for event in await handle.query("events")}
    await handle.signal("backoff_expired", {"container": "a"})
    await until(handle, lambda pod: runs(pod, "a"))
