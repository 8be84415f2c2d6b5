"""A pod that waits for a ConfigMap or Secret continues when its node reports that the object exists."""

from __future__ import annotations

from temporalio.client import Client

from syncpod.messages.steps import Fault
from tests.workflows.scripted import ScriptedNode, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import is_ready, manifest, running

MISSING = 'MountVolume.SetUp failed for volume "v" : configmap "settings" not found'


async def test_a_pod_continues_when_the_missing_object_of_its_volume_appears(
    client: Client, node: ScriptedNode
) -> None:
    node.fault("create_sandbox", Fault.FAILED_MOUNT, MISSING)
    handle = await start_pod(client, node, manifest())

    async def lines(kind: str) -> list[str]:
        return [line["reason"] for line in await handle.query("history") if line["kind"] == kind]

    await until(handle, lambda _: node.steps() == ["create_sandbox"])
    while not await lines("hold"):
        await query_pod(handle)
    await handle.signal("backoff_expired", {"container": "create_sandbox", "appeared": 'configmap "settings"'})
    await until(handle, is_ready)
    assert await lines("signal") == ['configmap "settings" has come or changed: the back-off of create_sandbox ends']


async def test_an_object_signal_to_a_running_pod_has_no_effect(client: Client, node: ScriptedNode) -> None:
    handle = await running(client, node, manifest())
    for subject in ("create_sandbox", "web", "nobody"):
        await handle.signal("backoff_expired", {"container": subject, "appeared": 'secret "password"'})
    await query_pod(handle)
    told = [*await handle.query("history"), *await handle.query("events")]
    assert not [line for line in told if "backoff_expired" in str(line) or line.get("reason") == "Rejected"]
