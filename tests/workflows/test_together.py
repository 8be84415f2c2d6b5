"""The first start of a pod begins together with the step that makes its sandbox, and counts only if it has begun."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio.client import Client, WorkflowHandle

from syncpod.messages.steps import CreateSandbox, Fault, StartContainer
from tests.agent.waiting import until_asked
from tests.workflows.scripted import ScriptedNode, container, start_pod, until
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
    assert node.steps() == ["create_sandbox", "kill_pod", "remove_pod"]


async def _start_has_let_go(handle: WorkflowHandle[Any, Any]) -> None:
    """Wait until the start that was begun with the sandbox has ended."""

    async def gone() -> bool:
        pending = (await handle.describe()).raw_description.pending_activities
        return not any(each.activity_type.name == "start_container" for each in pending)

    await until_asked(gone)
