"""A pod with a signed start obeys only signed commands. Refused commands are reported, and change and end nothing.

Holds: Only users who can read the key in the state directory can command a signed node.
"""

from __future__ import annotations

import asyncio
import errno
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from temporalio.api.command.v1 import Command, ScheduleActivityTaskCommandAttributes
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.enums.v1 import CommandType, EventType
from temporalio.api.failure.v1 import ApplicationFailureInfo, Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollWorkflowTaskQueueRequest,
    ResetStickyTaskQueueRequest,
    ResetWorkflowExecutionRequest,
    RespondActivityTaskCompletedByIdRequest,
    RespondActivityTaskFailedByIdRequest,
    RespondWorkflowTaskCompletedRequest,
)
from temporalio.client import (
    ActivityFailureError,
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer

from syncpod.cli.temporal.pod_apply import apply_pod
from syncpod.messages.pod_card import POD_MEMO, Readoption, with_readoption
from syncpod.messages.pod_commands import Change
from syncpod.messages.signature import SIGNATURE, Keys, key_id
from syncpod.node.begun_runs import COPY, BegunRuns
from syncpod.pod import parse_pod
from syncpod.signing.keys import SigningKeys, add_signing_key, make_signing_keys, remove_signing_key
from syncpod.temporal.plugin import DATA_CONVERTER, verifying, verifying_converter
from syncpod.temporal.queries import AskAgain
from syncpod.temporal.resize_metrics import ResizeMetricsInterceptor
from syncpod.temporal.signed_steps import SigningWorker
from syncpod.temporal.signing import SigningClient, signing_converter
from syncpod.temporal.workflow_starts import look_at, start_operation
from syncpod.temporal.workflow_watch import CANNOT_NOTE, WAS_RESET, Published, WatchedRunner
from tests.workflows.raw_signals import signal_raw
from tests.workflows.sandbox import sandboxed_runner
from tests.workflows.scripted import (
    ScriptedNode,
    container,
    in_another_run,
    pending_step,
    query_pod,
    scripted_worker,
    start_pod,
    until,
)
from tests.workflows.test_pod_workflow import is_ready, manifest
from workflows.pod.workflow import PodWorkflow


class Signed(NamedTuple):
    """A node whose commands are signed, and its owner's client."""

    node: ScriptedNode
    owner: Client
    keys: SigningKeys


class Watches:
    """Watches workflows for failed tasks."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def published(self, workflow_id: str, run_id: str, published: Published | None) -> None: ...

    def pods(self) -> Sequence[Published]:
        return ()

    def has_ended(self, _workflow_id: str, _run_id: str) -> bool:
        return False

    def task_failed(self, workflow_id: str, run_id: str, why: str) -> None:
        self.failed.append(why)


def signing(client: Client, keys: Keys) -> Client:
    """A client with signatures, on the same connection."""
    config = client.config()
    config["data_converter"] = signing_converter(DATA_CONVERTER, keys, verifies=False)
    config["interceptors"] = [AskAgain(), SigningClient(keys.number)]
    return Client(**config)


@pytest_asyncio.fixture(loop_scope="session")
async def signed(
    client: Client, worker_options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Signed]:
    monkeypatch.setattr("syncpod.signing.keys.LOOK_SECONDS", 0.0)
    keys, node = make_signing_keys(tmp_path), ScriptedNode()
    owner = signing(client, keys)
    # Not the runner of `worker_options`, which replays unsigned histories. See `replays`.
    runner = WatchedRunner(sandboxed_runner(), Watches(), BegunRuns(tmp_path).refusal)
    options = {**worker_options, "workflow_runner": runner}
    interceptors = [ResizeMetricsInterceptor(), SigningWorker()]
    async with scripted_worker(verifying(owner, keys), node, interceptors=interceptors, **options):
        yield Signed(node, owner, keys)


async def events_of(handle: Any) -> list[HistoryEvent]:
    """The events of the workflow's run, as anybody with access to the server reads them."""
    return [event async for event in handle.fetch_history_events()]


async def rejections(handle: Any) -> str:
    """The messages of the pod's events about refused commands."""
    told = await handle.query("events")
    return "\n".join(event["message"] for event in told if event["reason"] == "Rejected")


async def until_refused(handle: Any, text: str) -> None:
    """Wait until the pod's events have this message."""
    deadline = asyncio.get_running_loop().time() + 60
    while text not in (said := await rejections(handle)):
        assert asyncio.get_running_loop().time() < deadline, said
        await asyncio.sleep(0.05)


async def replays(signed: Signed, handle: Any) -> None:
    """Assert that the run's history replays with the same verdicts."""
    history = await handle.fetch_history()
    await Replayer(
        workflows=[PodWorkflow],
        data_converter=verifying_converter(signed.keys),
        interceptors=[SigningWorker()],
        workflow_runner=sandboxed_runner(),
        namespace=signed.owner.namespace,
    ).replay_workflow(history)


async def test_a_signed_payload_that_is_no_json_is_refused_without_advice_about_its_signature(signed: Signed) -> None:
    handle = await start_pod(signed.owner, signed.node, manifest())
    await until(handle, is_ready)
    half = Payload(metadata={"encoding": b"json/plain"}, data=rb'{"type": "ok", "status": "True", "message": "\ud800"}')
    await handle.signal("set_condition", RawValue(half))
    await until_refused(
        handle, "signal set_condition is refused, since its payload is signed, but is not readable JSON"
    )
    assert "must be signed" not in await rejections(handle)
    await replays(signed, handle)


async def test_the_owner_commands_and_a_stranger_does_not(client: Client, signed: Signed) -> None:
    handle = await start_pod(signed.owner, signed.node, manifest())
    await until(handle, is_ready)
    stranger = client.get_workflow_handle(handle.id)
    steps = signed.node.steps()
    for name, args in (
        ("delete_pod", [{}]),
        ("update_pod", [manifest()]),
        ("evict", [{"uid": "x"}]),
        ("renew", []),
        ("backoff_expired", [{"container": "web"}, {}]),
    ):
        await stranger.signal(name, args=args)
        await until_refused(handle, f"signal {name} is refused, since it")
    await stranger.cancel()
    await until_refused(handle, "the cancellation is refused")
    assert "`delete_pod`" in (await handle.query("events"))[-1]["message"]
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await stranger.execute_update("delete", {})
    assert "update delete is refused, since it is not signed" in str(refused.value.cause)
    assert "a node's commands must be signed with the key in its state directory" in str(refused.value.cause)
    assert signed.node.steps() == steps
    assert is_ready(await query_pod(handle))
    first = (await events_of(handle))[0].workflow_execution_started_event_attributes.input.payloads[0]
    assert SIGNATURE in first.metadata
    assert first.metadata["encoding"] == b"json/plain", "the JSON stays readable"
    await replays(signed, handle)
    await handle.signal("delete_pod", {})
    await handle.result()
    await replays(signed, handle)


async def test_a_new_key_signs_and_the_one_before_verifies_until_it_is_removed(
    client: Client, signed: Signed, tmp_path: Path
) -> None:
    handle = await start_pod(signed.owner, signed.node, manifest())
    await until(handle, is_ready)
    former, before = signing(client, FixedKeys(signed.keys)), key_id(signed.keys.current)
    after = key_id(add_signing_key(tmp_path).current)
    for one, restarts in ((former, 1), (signed.owner, 2)):
        await one.get_workflow_handle(handle.id).signal("restart", {"container": "web"})
        await until(handle, partial(_is_restarted, restarts))
    signed_by = {payload.metadata["syncpod-key"].decode() for payload in await signals_of(handle)}
    assert signed_by == {before, after}
    await replays(signed, handle)
    first = (await handle.describe()).run_id
    await handle.signal("renew", {})
    await in_another_run(handle, first)
    remove_signing_key(tmp_path, before)
    await former.get_workflow_handle(handle.id).signal("delete_pod", {})
    await until_refused(handle, "signal delete_pod is refused, since it is signed with a key that this node does not")
    await replays(signed, handle)


def _is_restarted(times: int, pod: dict[str, Any]) -> bool:
    return bool(container(pod, "web")["restartCount"] == times and is_ready(pod))


class FixedKeys:
    """The keys of a person who copied them from a node and gets no later ones."""

    def __init__(self, keys: SigningKeys) -> None:
        self.current, self.by_id, self.number = keys.current, dict(keys.by_id), keys.number
        self.encrypts = False


async def signals_of(handle: Any) -> list[Payload]:
    """The payloads of the signals in a history."""
    return [
        payload
        for event in await events_of(handle)
        for payload in event.workflow_execution_signaled_event_attributes.input.payloads
    ]


async def test_the_page_of_a_signed_pod_says_who_sent_it(signed: Signed) -> None:
    """A memo is not signed, and commands nothing."""
    document = manifest()
    memo = {POD_MEMO: with_readoption({"sender": "17@laptop"}, Readoption("its workflow was terminated"))}
    document["metadata"] |= {"uid": str(uuid.uuid4()), "namespace": "default"}
    handle = await start_pod(signed.owner, signed.node, document, memo=memo, adopt={"incarnation": "life"})
    assert (await handle.query("history"))[0]["reason"] == "was terminated"
    page: Any = await handle.query("__temporal_workflow_metadata")
    assert "\n- sent by 17@laptop\n" in page.current_details
    await handle.terminate()


async def test_an_unsigned_start_ends_at_once_and_makes_nothing(client: Client, signed: Signed) -> None:
    handle = await start_pod(client, signed.node, manifest())
    with pytest.raises(WorkflowFailureError) as failure:
        await handle.result()
    assert isinstance(failure.value.cause, ApplicationError)
    assert "the start is refused, since it is not signed" in str(failure.value.cause)
    assert signed.node.steps() == []


async def test_a_copy_of_a_command_does_not_act_again(client: Client, signed: Signed) -> None:
    document = manifest()
    handle = await start_pod(signed.owner, signed.node, document)
    await until(handle, is_ready)
    await handle.signal("restart", {"container": "web"})
    await until(handle, lambda pod: container(pod, "web")["restartCount"] == 1 and is_ready(pod))
    other = await start_pod(signed.owner, signed.node, manifest())
    await until(other, is_ready)
    [copied] = [
        event.workflow_execution_signaled_event_attributes.input.payloads[0]
        for event in await events_of(handle)
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
        and event.workflow_execution_signaled_event_attributes.signal_name == "restart"
    ]
    steps = len(signed.node.steps())
    for target, name, why in (
        (handle, "restart", "a copy of a command that was carried out before"),
        (handle, "delete_pod", "it was signed as signal/restart"),
        (other, "restart", "another payload or another workflow"),
    ):
        await signal_raw(client, target.id, name, copied)
        await until_refused(target, f"signal {name} is refused, since it")
        assert why in await rejections(target)
    assert len(signed.node.steps()) == steps
    # Nor in the next run, nor in the next pod of that name.
    first = (await handle.describe()).run_id
    await handle.signal("renew", {})
    await in_another_run(handle, first)
    await signal_raw(client, handle.id, "restart", copied)
    await until_refused(handle, "signal restart is refused, since it is a copy")
    await handle.signal("delete_pod", {})
    await handle.result()
    handle = await start_pod(signed.owner, signed.node, document)
    await until(handle, is_ready)
    await signal_raw(client, handle.id, "restart", copied)
    await until_refused(handle, "signal restart is refused, since it is older than what was carried out before")


async def test_a_run_that_was_reset_to_its_start_goes_on_failing_and_never_ends(client: Client, signed: Signed) -> None:
    """If the run ended, its pod would have no workflow. So its tasks fail instead, and the agent starts a new run."""
    handle = await start_pod(signed.owner, signed.node, manifest())
    await until(handle, is_ready)
    first = (await handle.describe()).run_id
    [completed, *_] = [
        event.event_id
        for event in await events_of(handle)
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=first),
            reason="by a stranger",
            workflow_task_finish_event_id=completed,
            request_id="reset",
        )
    )
    steps = len(signed.node.steps())
    second = await in_another_run(handle, first)
    newest = client.get_workflow_handle(handle.id, run_id=second)

    async def why() -> str:
        return "\n".join(
            event.workflow_task_failed_event_attributes.failure.message for event in await events_of(newest)
        )

    deadline = asyncio.get_running_loop().time() + 60
    while WAS_RESET not in (said := await why()):
        assert asyncio.get_running_loop().time() < deadline, said
        await asyncio.sleep(0.05)
    assert (await newest.describe()).status == WorkflowExecutionStatus.RUNNING
    assert len(signed.node.steps()) == steps
    await newest.terminate()


async def test_an_apply_that_another_start_of_the_same_new_pod_has_overtaken_is_signed_anew(
    client: Client, signed: Signed
) -> None:
    """Two commands apply it at once, and its workflow refuses payloads that were signed before its own start."""
    document, numbers = manifest(), [signed.keys.number() for _ in range(2)]
    handle = await start_pod(signed.owner, signed.node, document)
    await until(handle, is_ready)
    config = client.config()
    config["data_converter"] = signing_converter(DATA_CONVERTER, signed.keys, verifies=False)
    config["interceptors"] = [AskAgain(), SigningClient(lambda: numbers.pop(0) if numbers else signed.keys.number())]
    node = signed.node.queue.removeprefix("node/")
    applied = await apply_pod(Client(**config), parse_pod(document), node=node, has_attributes=False)
    assert (applied.change, numbers) == (Change.UNCHANGED, [])


async def _start_raw(client: Client, signed: Signed, workflow_id: str, payload: Payload) -> Any:
    """Start the workflow with exactly this payload, in place of the run that is open."""
    return await client.start_workflow(
        "PodWorkflow",
        RawValue(payload),
        id=workflow_id,
        task_queue=signed.node.queue,
        id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
    )


async def test_a_copy_of_a_start_brings_no_pod_back(client: Client, signed: Signed) -> None:
    """Neither the start of a deleted pod nor that of an earlier run."""
    handle = await start_pod(signed.owner, signed.node, manifest())
    await until(handle, is_ready)
    start = (await events_of(handle))[0].workflow_execution_started_event_attributes.input.payloads[0]
    first = (await handle.describe()).run_id
    await handle.signal("renew", {})
    await in_another_run(handle, first)
    await until(handle, is_ready)
    continued = (await events_of(handle))[0].workflow_execution_started_event_attributes.input.payloads[0]
    steps = len(signed.node.steps())
    for copied in (start, continued):
        run = await _start_raw(client, signed, handle.id, copied)
        with pytest.raises(WorkflowFailureError) as failure:
            await run.result()
        assert COPY in str(failure.value.cause)
    assert len(signed.node.steps()) == steps


async def test_a_start_that_cannot_be_noted_is_tried_again(
    client: Client, worker_options: dict[str, Any], tmp_path: Path
) -> None:
    """The disk is full. The history is not blamed for that, and the pod starts once there is room."""
    keys, node, watch, full = make_signing_keys(tmp_path), ScriptedNode(), Watches(), [True, True]
    notes, owner = BegunRuns(tmp_path), signing(client, keys)

    def begun(workflow_id: str, run_id: str, number: int) -> str:
        if full:
            full.pop()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return notes.refusal(workflow_id, run_id, number)

    options = {**worker_options, "workflow_runner": WatchedRunner(sandboxed_runner(), watch, begun)}
    interceptors = [ResizeMetricsInterceptor(), SigningWorker()]
    async with scripted_worker(verifying(owner, keys), node, interceptors=interceptors, **options):
        handle = await start_pod(owner, node, manifest())
        await until(handle, is_ready)
        failed = [
            event.workflow_task_failed_event_attributes.failure.message
            for event in await events_of(handle)
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
        ]
        assert failed and set(failed) == {f"{CANNOT_NOTE}: No space left on device"}
        assert watch.failed == []


async def test_a_result_that_a_stranger_gives_is_a_failed_step(client: Client, signed: Signed) -> None:
    signed.node.gate["start_container"] = asyncio.Event()
    handle = await start_pod(signed.owner, signed.node, manifest())
    await until(handle, lambda _: "start_container web" in signed.node.steps())
    pending = await pending_step(handle, "start_container")
    scheduled = [
        event.activity_task_scheduled_event_attributes
        for event in await events_of(handle)
        if event.activity_task_scheduled_event_attributes.activity_id == pending.activity_id
    ]
    (its_input,) = scheduled[0].input.payloads
    await client.workflow_service.respond_activity_task_completed_by_id(
        RespondActivityTaskCompletedByIdRequest(
            namespace=client.namespace,
            workflow_id=handle.id,
            activity_id=pending.activity_id,
            result=Payloads(payloads=[its_input]),  # signed, but as an input
        )
    )
    signed.node.gate["start_container"].set()
    await until(handle, lambda pod: _waits(pod) == "UnsignedResult")
    await replays(signed, handle)


async def test_what_a_stranger_says_of_a_failed_step_is_not_believed(client: Client, signed: Signed) -> None:
    signed.node.gate["start_container"] = asyncio.Event()
    handle = await start_pod(signed.owner, signed.node, manifest())
    await until(handle, lambda _: "start_container web" in signed.node.steps())
    pending = await pending_step(handle, "start_container")
    failure = Failure(
        message="by hand", application_failure_info=ApplicationFailureInfo(non_retryable=True, type="ByHand")
    )
    lie = b'{"rejection": {"reason": "Evicted", "message": "a lie"}, "message": "a lie"}'
    failure.application_failure_info.details.payloads.append(Payload(metadata={"encoding": b"json/plain"}, data=lie))
    await client.workflow_service.respond_activity_task_failed_by_id(
        RespondActivityTaskFailedByIdRequest(
            namespace=client.namespace, workflow_id=handle.id, activity_id=pending.activity_id, failure=failure
        )
    )
    signed.node.gate["start_container"].set()
    await until(handle, lambda pod: _waits(pod) == "ByHand")
    assert (await query_pod(handle))["status"]["phase"] == "Pending"


def _waits(pod: dict[str, Any]) -> str:
    """The reason why the container waits."""
    reason: str = container(pod, "web")["state"].get("waiting", {}).get("reason", "")
    return reason


async def test_a_step_that_a_stranger_schedules_does_nothing(client: Client, signed: Signed) -> None:
    """As a standalone activity, or in a workflow of the stranger with the input of an earlier step."""
    handle = await start_pod(signed.owner, signed.node, manifest())
    await until(handle, is_ready)
    steps = signed.node.steps()
    [copied] = [
        event.activity_task_scheduled_event_attributes.input.payloads[0]
        for event in await events_of(handle)
        if event.activity_task_scheduled_event_attributes.activity_type.name == "start_container"
    ]

    for given in (RawValue(copied), {"ref": {"namespace": "default", "name": "web"}}):
        with pytest.raises(ActivityFailureError) as failed:
            await client.execute_activity(
                "start_container",
                given,
                id=f"stranger-{handle.id}",
                task_queue=signed.node.queue,
                start_to_close_timeout=timedelta(seconds=30),
            )
        assert "step start_container is refused, since its input is not accepted" in str(failed.value.cause)
    assert signed.node.steps() == steps


async def test_a_stranger_who_answers_a_workflow_task_repeats_no_step(
    client: Client, worker_options: dict[str, Any], tmp_path: Path
) -> None:
    """The stranger polls the node's task queue, and schedules a step of the same run again, with its id and input."""
    keys, node, worker = make_signing_keys(tmp_path), ScriptedNode(), SigningWorker()
    owner = signing(client, keys)
    runner = WatchedRunner(sandboxed_runner(), Watches(), BegunRuns(tmp_path).refusal)
    options = {**worker_options, "workflow_runner": runner}
    interceptors = [ResizeMetricsInterceptor(), worker]
    async with scripted_worker(verifying(owner, keys), node, interceptors=interceptors, **options):
        handle = await start_pod(owner, node, manifest())
        await until(handle, is_ready)
    steps = node.steps()
    step_id = await _schedule_again(client, handle.id, node.queue)
    async with scripted_worker(verifying(owner, keys), node, interceptors=interceptors, **options):
        failure = await _failure_of(handle, step_id)
    assert "start_container is refused, since its input is not accepted: it is a copy of a step" in failure
    assert node.steps() == steps


async def _schedule_again(stranger: Client, workflow_id: str, queue: str) -> str:
    """Answer the workflow's next task, while its worker is away, with a copy of its start of a container."""
    service, namespace = stranger.workflow_service, stranger.namespace
    handle = stranger.get_workflow_handle(workflow_id)
    [copied] = [
        event.activity_task_scheduled_event_attributes
        for event in await events_of(handle)
        if event.activity_task_scheduled_event_attributes.activity_type.name == "start_container"
    ]
    execution = WorkflowExecution(workflow_id=workflow_id)
    await service.reset_sticky_task_queue(ResetStickyTaskQueueRequest(namespace=namespace, execution=execution))
    await handle.signal("restart", {"container": "web"})
    task = await service.poll_workflow_task_queue(
        PollWorkflowTaskQueueRequest(namespace=namespace, task_queue=TaskQueue(name=queue), identity="stranger")
    )
    assert task.workflow_execution.workflow_id == workflow_id
    again = ScheduleActivityTaskCommandAttributes(
        activity_id=copied.activity_id,
        activity_type=copied.activity_type,
        task_queue=copied.task_queue,
        input=copied.input,
        start_to_close_timeout=copied.start_to_close_timeout,
    )
    command = Command(
        command_type=CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK, schedule_activity_task_command_attributes=again
    )
    await service.respond_workflow_task_completed(
        RespondWorkflowTaskCompletedRequest(namespace=namespace, task_token=task.task_token, commands=[command])
    )
    return copied.activity_id


async def _failure_of(handle: Any, step_id: str) -> str:
    """Wait for the end of the second step of this id; return its failure, "" if it has not failed."""
    deadline = asyncio.get_running_loop().time() + 60
    while asyncio.get_running_loop().time() < deadline:
        events = await events_of(handle)
        number = [
            event.event_id for event in events if event.activity_task_scheduled_event_attributes.activity_id == step_id
        ][-1]
        for event in events:
            if event.activity_task_failed_event_attributes.scheduled_event_id == number:
                return event.activity_task_failed_event_attributes.failure.message
            if event.activity_task_completed_event_attributes.scheduled_event_id == number:
                return ""
        await asyncio.sleep(0.05)
    raise AssertionError("the step has not ended")


async def test_update_with_start_is_signed_as_a_whole(client: Client, signed: Signed) -> None:

    pod = parse_pod(manifest())
    for caller, is_owner in ((client, False), (signed.owner, True)):
        start = start_operation(pod, signed.node.queue.removeprefix("node/"), has_attributes=False, sender="me")
        apply = caller.execute_update_with_start_workflow(
            "apply", manifest() | {"metadata": {"name": pod.metadata.name}}, start_workflow_operation=start
        )
        if is_owner:
            await apply
        else:
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await apply
            assert "the start is refused, since it is not signed" in str(refused.value.cause)
        await look_at(start)
    handle = signed.owner.get_workflow_handle(f"pod/default/{pod.metadata.name}")
    await until(handle, is_ready)
    assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
