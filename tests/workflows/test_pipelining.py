"""A start ahead is sent together with the first step or during it, and counts only once it has begun.

Holds: A container that was created before its turn is never started out of turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from temporalio.client import Client, WorkflowHandle

from syncpod.messages.steps import CreateSandbox, Fault, StartContainer
from tests.agent.waiting import until_asked
from tests.workflows.scripted import (
    ScriptedNode,
    container,
    query_pod,
    start_pod,
    under_way,
    until,
    until_next_waits,
)
from tests.workflows.test_pod_workflow import is_ready, manifest


async def scheduled(handle: WorkflowHandle[Any, Any]) -> list[tuple[str, int]]:
    """Each step of the history, with the event of the workflow task that scheduled it."""
    return [
        (attributes.activity_type.name, attributes.workflow_task_completed_event_id)
        for event in (await handle.fetch_history()).events
        if (attributes := event.activity_task_scheduled_event_attributes).activity_id
    ]


async def test_the_sandbox_and_its_first_start_are_begun_by_one_task(client: Client, node: ScriptedNode) -> None:
    handle = await start_pod(client, node, manifest())
    await until(handle, is_ready)
    (first, task), (second, same) = await scheduled(handle)
    assert (first, second, task) == ("create_sandbox", "start_container", same)
    sandbox, start = (step for _, step in node.taken)
    assert isinstance(sandbox, CreateSandbox) and sandbox.followed
    assert isinstance(start, StartContainer) and (start.follows, start.fence) == (sandbox.fence, sandbox.fence + 1)


async def test_a_start_that_was_not_begun_counts_as_nothing(client: Client, node: ScriptedNode) -> None:
    node.fault("create_sandbox", Fault.FAILED_CREATE_SANDBOX)
    handle = await start_pod(client, node, manifest())
    await until(handle, lambda _: node.steps() == ["create_sandbox"])

    async def told() -> bool:
        return bool(await handle.query("events"))

    await until_asked(told)
    assert [each["reason"] for each in await handle.query("events")] == ["FailedCreatePodSandBox"]
    assert [each for each in await handle.query("history") if each.get("outcome") == "notBegun"]
    await handle.signal("backoff_expired", {"container": "create_sandbox"})
    ready = await until(handle, is_ready)
    assert container(ready, "web")["restartCount"] == 0
    assert node.steps() == ["create_sandbox", "create_sandbox", "start_container web"]


async def test_an_image_that_changes_before_the_sandbox_is_there_is_the_one_that_starts(
    client: Client, node: ScriptedNode
) -> None:
    node.gate["create_sandbox"] = asyncio.Event()
    document = manifest()
    handle = await start_pod(client, node, document)
    await until(handle, lambda _: node.steps() == ["create_sandbox"])
    document["spec"]["containers"][0]["image"] = "busybox:2"
    await handle.signal("update_pod", document)
    await _start_has_let_go(handle)
    node.gate["create_sandbox"].set()
    ready = await until(handle, is_ready)
    assert (container(ready, "web")["image"], container(ready, "web")["restartCount"]) == ("busybox:2", 0)
    assert node.steps() == ["create_sandbox", "start_container web"]


async def test_a_deletion_while_the_sandbox_is_made_starts_nothing(client: Client, node: ScriptedNode) -> None:
    node.gate["create_sandbox"] = asyncio.Event()
    node.deaf.add("create_sandbox")
    handle = await start_pod(client, node, manifest())
    await until(handle, lambda _: node.steps() == ["create_sandbox"])
    await handle.signal("delete_pod", {})
    await until(handle, lambda pod: "deletionTimestamp" in pod["metadata"])
    await _start_has_let_go(handle)
    node.gate["create_sandbox"].set()
    await handle.result()
    assert node.steps() == ["create_sandbox", "kill_pod"]


async def _start_has_let_go(handle: WorkflowHandle[Any, Any]) -> None:
    """Wait until the start that was begun with the sandbox has ended."""

    async def gone() -> bool:
        pending = (await handle.describe()).raw_description.pending_activities
        return not any(each.activity_type.name == "start_container" for each in pending)

    await until_asked(gone)


def chain(*inits: str, mains: Sequence[str] = ("web",)) -> dict[str, Any]:
    """A pod with these init containers and main containers."""
    document = manifest()
    document["spec"]["initContainers"] = [{"name": name, "image": "busybox:1"} for name in inits]
    document["spec"]["containers"] = [{"name": name, "image": "busybox:1"} for name in mains]
    return document


def follows(node: ScriptedNode) -> dict[str, int]:
    """By container, how many steps before its start the awaited step is; 0: it waited for none."""
    starts = [step for _, step in node.taken if isinstance(step, StartContainer)]
    return {step.container: step.fence - step.follows if step.follows else 0 for step in starts}


async def test_each_start_of_a_chain_waits_in_the_worker_for_the_one_before(client: Client, node: ScriptedNode) -> None:
    node.end_at_once(0, 0)
    handle = await until_next_waits(client, node, chain("a", "b", mains=("web", "side")), "start_init_container")
    await until(handle, is_ready)
    starts = ["start_init_container a", "start_init_container b", "start_container web", "start_container side"]
    assert node.steps() == ["create_sandbox", *starts]
    assert (follows(node)["a"], follows(node)["b"]) == (1, 1)
    history = await handle.query("history")
    assert [each for each in history if each.get("outcome") == "notBegun"] == []
    steps = [each for each in history if each["kind"] == "step"]
    whys = [each["reason"] for each in steps if each["subject"].startswith("start_")]
    assert len(whys) == 4 and all(whys)


async def test_a_pod_with_a_long_init_container_takes_one_step_at_a_time(client: Client, node: ScriptedNode) -> None:
    handle = await until_next_waits(client, node, chain("a", "b", "c"), "start_init_container")
    uid = (await query_pod(handle))["metadata"]["uid"]

    async def told() -> list[str]:
        return [each["subject"] for each in await handle.query("history") if each.get("outcome") == "notBegun"]

    async def is_told() -> bool:
        return bool(await told())

    await until_asked(is_told)
    node.end_at_once(0, 0)
    await node.tell(handle, await node.exits(uid, "a", 0), "ContainerDied")
    await until(handle, is_ready)
    assert len(await told()) == 1
    assert {name: follows(node)[name] for name in "bc"} == {"b": 0, "c": 0}


async def test_what_follows_an_init_container_that_fails_is_not_begun(client: Client, node: ScriptedNode) -> None:
    node.end_at_once(3)
    document = chain("a", "b")
    document["spec"]["restartPolicy"] = "Never"
    handle = await until_next_waits(client, node, document, "start_init_container")
    failed = await until(handle, lambda pod: pod["status"]["phase"] == "Failed")
    ended, waiting = (each["state"] for each in failed["status"]["initContainerStatuses"])
    assert ended["terminated"]["exitCode"] == 3 and "waiting" in waiting
    assert "start_init_container b" not in node.steps()
    assert [each for each in await handle.query("history") if each.get("outcome") == "notBegun"]


async def test_a_deletion_within_a_chain_starts_nothing_more(client: Client, node: ScriptedNode) -> None:
    node.end_at_once(0)
    gate = node.gate["start_init_container"] = asyncio.Event()
    node.deaf.add("start_init_container")
    handle = await start_pod(client, node, chain("a", "b"))
    await until(handle, lambda _: "start_init_container a" in node.steps())
    await under_way(handle, "start_init_container", 2)
    await handle.signal("delete_pod", {})
    await until(handle, lambda pod: "deletionTimestamp" in pod["metadata"])
    await under_way(handle, "start_init_container", 1)
    gate.set()
    await handle.result()
    assert node.steps() == ["create_sandbox", "start_init_container a", "kill_pod"]


async def test_another_image_for_the_container_that_waits_is_the_one_that_starts(
    client: Client, node: ScriptedNode
) -> None:
    gate = node.gate["start_container"] = asyncio.Event()
    document = chain(mains=("web", "side"))
    handle = await start_pod(client, node, document)
    await until(handle, lambda _: "start_container web" in node.steps())
    await under_way(handle, "start_container", 2)
    document["spec"]["containers"][1]["image"] = "busybox:2"
    await handle.signal("update_pod", document)
    await under_way(handle, "start_container", 1)
    gate.set()
    ready = await until(handle, is_ready)
    assert (container(ready, "side")["image"], container(ready, "side")["restartCount"]) == ("busybox:2", 0)
    assert node.steps() == ["create_sandbox", "start_container web", "start_container side"]


async def test_nothing_is_begun_ahead_beside_a_sidecar(client: Client, node: ScriptedNode) -> None:
    document = chain("helper")
    document["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    handle = await start_pod(client, node, document)
    await until(handle, is_ready)
    assert follows(node) == {"helper": 1, "web": 0}
