"""A pod that lost its sandbox and gets no new one has failed, instead of waiting for ever."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client

from syncpod.lifecycle.kill_cause import AFTER_ITS_GRACE
from tests.workflows.scripted import ScriptedNode, container, phase, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import manifest


def never() -> dict[str, Any]:
    document = manifest()
    document["spec"] |= {
        "restartPolicy": "Never",
        "initContainers": [{"name": "first", "image": "busybox:1"}],
    }
    return document


@pytest.mark.parametrize("static", [False, True], ids=["applied", "static"])
async def test_of_an_init_container_that_ends_well_with_its_sandbox(
    client: Client, node: ScriptedNode, static: bool
) -> None:
    """A kubelet leaves it Pending for ever, with its room on the node."""
    document = never()
    if static:
        document["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}
    handle = await start_pod(client, node, document)
    await until(handle, lambda pod: "running" in str(pod["status"].get("initContainerStatuses")))
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.loses_sandbox(uid)
    await node.tell(handle, await node.exits(uid, "first", 0))
    pod = await until(handle, lambda pod: phase(pod) == "Failed")
    assert (pod["status"]["reason"], pod["status"]["message"]) == (
        "SandboxLost",
        "The pod lost its sandbox before web had started, and its restart policy Never allows no other",
    )
    assert node.steps()[-1] == "kill_pod"
    assert "create_sandbox" not in node.steps()[1:]
    events = [(each["type"], each["reason"]) for each in await handle.query("events")]
    assert ("Warning", "SandboxLost") in events


async def test_an_init_container_that_outlives_its_sandbox_is_said_to_have_lost_it(
    client: Client, node: ScriptedNode
) -> None:
    """It was said that no container was left to run, although one ran."""
    handle = await start_pod(client, node, never())
    await until(handle, lambda pod: "running" in str(pod["status"].get("initContainerStatuses")))
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.loses_sandbox(uid))
    pod = await until(handle, lambda pod: phase(pod) == "Failed")
    assert container(pod, "first")["state"]["terminated"]["exitCode"] == 137
    (said,) = [each["reason"] for each in await handle.query("history") if each["kind"] == "exit"]
    assert said == f"the sandbox is no longer ready, and the pod gets no other{AFTER_ITS_GRACE}"
