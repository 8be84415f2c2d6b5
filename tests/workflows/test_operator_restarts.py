"""The signal `restart`: an operator restarts containers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from temporalio.client import Client

from syncpod.lifecycle.kill_cause import AFTER_ITS_GRACE
from syncpod.messages.steps import Fault, KillContainer, Outcome, StepInput
from tests.workflows.scripted import ScriptedNode, container, phase, query_pod, until
from tests.workflows.test_pod_workflow import manifest, running


async def rejections(handle: Any) -> list[str]:
    return [event["message"] for event in await handle.query("events") if event["reason"] == "Rejected"]


async def test_an_operators_restart_ends_a_container_with_its_grace_and_starts_it_at_once(
    client: Client, node: ScriptedNode
) -> None:
    containers = [{"name": "web", "image": "busybox:1"}, {"name": "other", "image": "busybox:1"}]
    handle = await running(client, node, manifest(containers=containers, terminationGracePeriodSeconds=7))
    for count in (1, 2, 3):
        await handle.signal("restart", {"container": "web"})
        pod = await until(handle, lambda pod, n=count: container(pod, "web").get("restartCount") == n)  # type: ignore[misc]
    assert container(pod, "other")["restartCount"] == 0
    assert node.steps()[3:] == ["kill_container web", "start_container web"] * 3, "and no back-off between"
    kill = next(step for _, step in node.taken if isinstance(step, KillContainer))
    assert (kill.target.grace_seconds, kill.message) == (7, "an operator restarts it")
    exits = [line for line in await handle.query("history") if line["kind"] == "exit"]
    assert {line["reason"] for line in exits} == {f"an operator restarts it{AFTER_ITS_GRACE}"}


async def test_a_restart_without_a_name_restarts_exactly_the_main_containers(
    client: Client, node: ScriptedNode
) -> None:
    sidecar = {"name": "proxy", "image": "busybox:1", "restartPolicy": "Always"}
    containers = [{"name": "web", "image": "busybox:1"}, {"name": "other", "image": "busybox:1"}]
    handle = await running(client, node, manifest(containers=containers, initContainers=[sidecar]))
    await handle.signal("restart", {})
    for name in ("web", "other"):
        pod = await until(handle, lambda pod, n=name: container(pod, n).get("restartCount") == 1)  # type: ignore[misc]
    assert container(pod, "proxy")["restartCount"] == 0
    await handle.signal("restart", {"container": "proxy"})
    await until(handle, lambda pod: container(pod, "proxy").get("restartCount") == 1)


@pytest.mark.parametrize(("policy", "code"), [("Never", 137), ("OnFailure", 0), ("OnFailure", 137)])
async def test_an_operator_restarts_a_container_despite_policy_never(
    client: Client, node: ScriptedNode, policy: str, code: int
) -> None:
    handle = await running(client, node, manifest(restartPolicy=policy))
    uid = (await query_pod(handle))["metadata"]["uid"]

    async def end(_: StepInput) -> Outcome:
        await node.exits(uid, "web", code)
        return Outcome.DONE

    node.script["kill_container"].append(end)
    await handle.signal("restart", {"container": "web"})
    pod = await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
    assert phase(pod) == "Running"
    assert "kill_pod" not in node.steps()
    await node.tell(handle, await node.exits(uid, "web", 0))
    assert phase(await until(handle, lambda pod: phase(pod) != "Running")) == "Succeeded", "once, not for ever"


async def test_an_operators_restart_starts_a_waiting_or_finished_container_at_once(
    client: Client, node: ScriptedNode
) -> None:
    containers = [{"name": "web", "image": "busybox:1"}, {"name": "other", "image": "busybox:1"}]
    handle = await running(client, node, manifest(restartPolicy="OnFailure", containers=containers))
    uid = (await query_pod(handle))["metadata"]["uid"]
    for count in (1, 2):
        await node.tell(handle, await node.exits(uid, "web", 1))
        if count == 2:
            await until(handle, lambda pod: "waiting" in container(pod, "web")["state"])
            await handle.signal("restart", {"container": "web"})
        await until(handle, lambda pod, n=count: container(pod, "web").get("restartCount") == n)  # type: ignore[misc]
    await node.tell(handle, await node.exits(uid, "web", 0))
    await until(handle, lambda pod: "terminated" in container(pod, "web")["state"])
    await handle.signal("restart", {"container": "web"})
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 3)
    assert not [step for step in node.steps() if step.startswith("kill")]


async def test_an_operators_restart_retries_a_failed_start_at_once(client: Client, node: ScriptedNode) -> None:
    handle = await running(client, node, manifest())
    node.fault("start_container", Fault.RUN_CONTAINER_ERROR, "no such file")
    await handle.signal("restart", {})
    await until(handle, lambda pod: "waiting" in container(pod, "web")["state"])
    await handle.signal("restart", {})
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)


async def test_an_impossible_restart_is_refused_with_the_reason(client: Client, node: ScriptedNode) -> None:
    sidecar = {"name": "proxy", "image": "busybox:1", "restartPolicy": "Always"}
    handle = await running(client, node, manifest(restartPolicy="Never", initContainers=[sidecar]))
    await handle.signal("restart", {"container": "none"})
    await until(handle, lambda _: True)
    assert await rejections(handle) == [
        "signal restart: container: is 'none', must be a main container or a sidecar, one of proxy, web"
    ]
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "web", 0))
    await until(handle, lambda pod: phase(pod) == "Succeeded")
    await handle.signal("restart", {})
    await until(handle, lambda _: True)
    why = "signal restart: the pod is ending or has ended: its containers are not started again"
    assert (await rejections(handle))[-1] == why


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
async def test_a_container_ended_for_a_new_image_runs_again_whatever_its_policy_and_exit_code(
    client: Client, node: ScriptedNode, policy: str
) -> None:
    document = manifest(restartPolicy=policy)
    handle = await running(client, node, document)
    uid = (await query_pod(handle))["metadata"]["uid"]

    async def end(_: StepInput) -> Outcome:
        await node.exits(uid, "web", 0)
        return Outcome.DONE

    node.script["kill_container"].append(end)
    changed = copy.deepcopy(document)
    changed["spec"]["containers"][0]["image"] = "busybox:2"
    await handle.execute_update("apply", changed)
    pod = await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
    assert (phase(pod), container(pod, "web")["image"]) == ("Running", "busybox:2")
