"""Hostile documents that bypass the command line are refused in one sentence, without harm to worker or pod."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from tests.workflows.scripted import ScriptedNode, query_pod, scripted_worker, start_pod
from tests.workflows.test_pod_workflow import manifest, running

MANY = 100_000


@pytest_asyncio.fixture(loop_scope="session")
async def node(client: Client, worker_options: dict[str, Any]) -> AsyncIterator[ScriptedNode]:
    """A node with a longer deadline of workflow tasks, since it reads megabytes."""
    scripted = ScriptedNode(unhurried=True)
    async with scripted_worker(client, scripted, **worker_options):
        yield scripted


def named(handle: WorkflowHandle[Any, Any], **changes: Any) -> dict[str, Any]:
    """Return a document for the pod of this workflow, with other metadata and another spec."""
    document = manifest(**changes.pop("spec", {}))
    document["metadata"] |= {"name": handle.id.rpartition("/")[2], **changes}
    return document


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "labels": ({"labels": {f"k{n}": "v" for n in range(MANY)}}, "must have no more than 20000 values"),
    "containers": ({"spec": {"containers": [{}] * MANY}}, "spec.containers: must be no more than 500"),
    "unknown fields": ({"spec": {f"containers{n}": 1 for n in range(15_000)}}, "spec.containers0, spec.containers1, "),
    "environment": (
        {"spec": {"containers": [{"name": "web", "image": "busybox:1", "env": [{"value": "x"}] * 9_000}]}},
        "spec.containers[0].env[0].name, spec.containers[0].env[1].name, ",
    ),
    "a megabyte": ({"annotations": {"a": "x" * 2**20}}, "metadata.annotations: must be no more than 256 KiB in all"),
    "an order to the terminal": ({"\x1b[2J": 1}, r"metadata.\x1b[2J: unknown field"),
    "a NUL": ({"spec": {"hostname": "a\0b"}}, "spec.hostname: must have no NUL character"),
    "a huge number": ({"spec": {"priority": 10**300}}, "spec.priority: must fit into 32 bits"),
    "depth": ({"spec": {"affinity": json.loads("[" * 150 + "]" * 150)}}, "nested more than 100 levels deep"),
}


async def failed_tasks(handle: WorkflowHandle[Any, Any]) -> int:
    events = [event async for event in handle.fetch_history_events()]
    return sum(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED for event in events)


async def test_a_hostile_document_is_refused_by_the_update_and_rejected_as_a_signal(
    client: Client, node: ScriptedNode, capsys: pytest.CaptureFixture[str]
) -> None:
    handle = await running(client, node, manifest())
    for name, (changes, sentence) in HOSTILE.items():
        document = named(handle, **changes)
        begun = time.monotonic()
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update("apply", document)
        updated = time.monotonic() - begun
        assert isinstance(refused.value.cause, ApplicationError)
        assert refused.value.cause.message.startswith(sentence), name
        await handle.signal("update_pod", document)
        await query_pod(handle)
        with capsys.disabled():
            sys.stdout.write(
                f"\n{updated:5.2f} s for an update, {time.monotonic() - begun - updated:.2f} s for a signal: {name} "
            )
    rejected = [event["message"] for event in await handle.query("events") if event["reason"] == "Rejected"]
    assert len(rejected) == len(HOSTILE)
    for message, (_, sentence) in zip(rejected, HOSTILE.values(), strict=True):
        assert message.startswith(f"signal update_pod: {sentence}")
        assert message.isprintable()
    assert await failed_tasks(handle) == 0


async def test_a_deeply_nested_payload_changes_nothing(client: Client, node: ScriptedNode) -> None:
    handle = await running(client, node, manifest())
    data = b'{"a":' * MANY + b"1" + b"}" * MANY
    endless = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data))
    await handle.signal("update_pod", endless)
    with pytest.raises(WorkflowUpdateFailedError):
        await handle.execute_update("apply", endless)
    assert (await query_pod(handle))["status"]["phase"] == "Running"
    assert await failed_tasks(handle) == 0


@pytest.mark.parametrize("changes", [HOSTILE["labels"], HOSTILE["containers"]], ids=["labels", "containers"])
async def test_a_run_started_with_a_hostile_document_fails_with_the_reason(
    client: Client, node: ScriptedNode, changes: tuple[dict[str, Any], str]
) -> None:
    more, sentence = changes
    document = manifest(**more.get("spec", {}))
    document["metadata"] |= {name: value for name, value in more.items() if name != "spec"}
    handle = await start_pod(client, node, document)
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.message == sentence
    assert await failed_tasks(handle) == 0
