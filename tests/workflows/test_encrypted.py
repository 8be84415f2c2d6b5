"""A pod of a node that encrypts: its history reveals nothing about it, and commands work as without encryption."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.worker import Replayer

from syncpod.messages.encryption import Undecipherable
from syncpod.messages.signature import Keys
from syncpod.messages.steps import Fault
from syncpod.node.begun_runs import BegunRuns
from syncpod.signing.keys import EncryptingKeys, SigningKeys, add_signing_key, make_signing_keys
from syncpod.temporal.plugin import DATA_CONVERTER, verifying, verifying_converter
from syncpod.temporal.queries import AskAgain
from syncpod.temporal.resize_metrics import ResizeMetricsInterceptor
from syncpod.temporal.signed_steps import SigningWorker
from syncpod.temporal.signing import SigningClient, signing_converter
from syncpod.temporal.workflow_watch import WatchedRunner
from tests.workflows.raw_signals import signal_raw
from tests.workflows.sandbox import sandboxed_runner
from tests.workflows.scripted import ScriptedNode, container, query_pod, scripted_worker, start_pod, until
from tests.workflows.test_pod_workflow import is_ready, manifest
from tests.workflows.test_signed import Watches, events_of, rejections, until_refused
from workflows.pod.workflow import PodWorkflow

MARKS = (b"sleep 4711", b"PASSPHRASE", b"xyzzy-0815", b"busybox")
"""Marks in a pod's command, environment and image."""


def marked() -> dict[str, Any]:
    env = [{"name": "PASSPHRASE", "value": "xyzzy-0815"}]
    one = {"name": "web", "image": "busybox:1", "command": ["sh", "-c", "sleep 4711"], "env": env}
    return manifest(containers=[one])


def commanding(client: Client, keys: Keys) -> Client:
    """A client on the same connection with these keys."""
    config = client.config()
    config["data_converter"] = signing_converter(DATA_CONVERTER, keys, verifies=False)
    config["interceptors"] = [AskAgain(), SigningClient(keys.number)]
    return Client(**config)


@pytest.fixture
def keys(tmp_path: Path) -> SigningKeys:
    return make_signing_keys(tmp_path)


@pytest_asyncio.fixture(loop_scope="session")
async def node(
    client: Client, worker_options: dict[str, Any], tmp_path: Path, keys: SigningKeys
) -> AsyncIterator[ScriptedNode]:
    """A node that encrypts."""
    node = ScriptedNode()
    runner = WatchedRunner(sandboxed_runner(), Watches(), BegunRuns(tmp_path).refusal)
    options = {**worker_options, "workflow_runner": runner}
    interceptors = [ResizeMetricsInterceptor(), SigningWorker()]
    encrypting = EncryptingKeys(keys)
    serving = verifying(commanding(client, encrypting), encrypting)
    async with scripted_worker(serving, node, interceptors=interceptors, **options):
        yield node


def has_restarted(times: int, pod: dict[str, Any]) -> bool:
    return container(pod, "web")["restartCount"] == times and is_ready(pod)


async def found(handle: Any) -> set[bytes]:
    """The readable parts of a pod's history."""
    history = b"".join([event.SerializeToString() for event in await events_of(handle)])
    return {mark for mark in MARKS if mark in history}


async def replays(client: Client, keys: Keys, handle: Any) -> None:
    await Replayer(
        workflows=[PodWorkflow],
        data_converter=verifying_converter(keys),
        interceptors=[SigningWorker()],
        workflow_runner=sandboxed_runner(),
        namespace=client.namespace,
    ).replay_workflow(await handle.fetch_history())


async def test_nothing_of_a_pod_is_in_its_history(client: Client, node: ScriptedNode, keys: SigningKeys) -> None:
    owner = commanding(client, EncryptingKeys(keys))
    handle = await start_pod(owner, node, marked())
    await until(handle, is_ready)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("apply", {"kind": "Pod", "metadata": {"name": "xyzzy-0815"}})
    assert "spec.containers: required" in str(refused.value.cause), "the owner reads why"
    assert (await query_pod(handle))["spec"]["containers"][0]["env"][0]["value"] == "xyzzy-0815"
    assert await found(handle) == set()
    stranger = client.get_workflow_handle(handle.id)
    with pytest.raises(Undecipherable, match="only the keys in the node's state directory"):
        await stranger.query("pod")
    with pytest.raises(WorkflowUpdateFailedError) as unread:
        await stranger.execute_update("delete", {})
    assert str(unread.value.cause) == "Invalid: Encoded failure"
    await handle.signal("delete_pod", {})
    await handle.result()
    assert await found(handle) == set()
    await replays(client, EncryptingKeys(keys), handle)


async def test_nor_why_a_step_failed(client: Client, node: ScriptedNode, keys: SigningKeys) -> None:
    owner = commanding(client, EncryptingKeys(keys))
    node.fault("start_container", Fault.RUN_CONTAINER_ERROR, "busybox:1 has no xyzzy-0815")
    handle = await start_pod(owner, node, marked())
    await until(handle, lambda pod: "no xyzzy-0815" in str(container(pod, "web")["state"]))
    assert await found(handle) == set()
    await handle.signal("delete_pod", {})
    await handle.result()
    assert await found(handle) == set()
    await replays(client, EncryptingKeys(keys), handle)


async def test_a_node_may_begin_to_encrypt_while_it_has_pods(
    client: Client, node: ScriptedNode, keys: SigningKeys, tmp_path: Path
) -> None:
    """Signed and encrypted payloads are both accepted, also after a new key."""
    plain, owner = commanding(client, keys), commanding(client, EncryptingKeys(keys))
    handle = await start_pod(plain, node, marked())
    await until(owner.get_workflow_handle(handle.id), is_ready)
    assert await found(handle) == set(MARKS), "its start can be read"
    handle = owner.get_workflow_handle(handle.id)
    for number, sender in enumerate((plain, owner), start=1):
        await sender.get_workflow_handle(handle.id).signal("restart", {"container": "web"})
        await until(handle, partial(has_restarted, number))
    assert await rejections(handle) == ""
    newer = add_signing_key(tmp_path)
    for each in (newer, EncryptingKeys(newer)):
        await replays(client, each, handle)


async def test_a_copy_is_worth_no_more_for_being_encrypted(
    client: Client, node: ScriptedNode, keys: SigningKeys
) -> None:
    owner = commanding(client, EncryptingKeys(keys))
    one, other = await start_pod(owner, node, marked()), await start_pod(owner, node, marked())
    for handle in (one, other):
        await until(handle, is_ready)
    await one.signal("restart", {"container": "web"})
    [copied] = [
        event.workflow_execution_signaled_event_attributes.input.payloads[0]
        for event in await events_of(one)
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
        and event.workflow_execution_signaled_event_attributes.signal_name == "restart"
    ]
    answers = [
        event.activity_task_completed_event_attributes.result.payloads[0]
        for event in await events_of(other)
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
    ]
    for payload, why in (
        (copied, "it was encrypted for another workflow, or altered"),
        (answers[0], "signature is of another"),
    ):
        await signal_raw(client, other.id, "restart", payload)
        await until_refused(other, "signal restart is refused, since it")
        assert why in await rejections(other)
    assert container(await query_pod(other), "web")["restartCount"] == 0
