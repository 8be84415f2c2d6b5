from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from unittest.mock import AsyncMock, Mock

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from syncpod.agent import background
from syncpod.agent.boot import Boot
from syncpod.agent.takeover import pods as module
from syncpod.agent.takeover.pods import OpenPod, Takeover
from syncpod.agent.takeover.search_attributes import register_search_attributes
from syncpod.lifecycle.observed import ObservedPod, Seq
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.node.reader import Relist
from tests.agent.stub_workflows import InAStep, Recorder, Silent, answers, hangs
from tests.agent.waiting import until, until_asked
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect

DEAD, NEW = "n1/machine/7", "n1/machine/8"
_STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
_CANCEL_REQUESTED = PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED


@pytest.fixture
async def client(temporal_server: DevServer) -> Client:
    return await connect(temporal_server.address)


@pytest.fixture
def task_queue() -> str:
    return f"node/{uuid.uuid4()}"


@contextlib.asynccontextmanager
async def killed_in_a_step(
    client: Client, temporal_server: DevServer, task_queue: str, *, let_go: bool = False
) -> AsyncIterator[str]:
    """Kill a worker in the middle of a step, whose cancellation was requested if `let_go`; yields the workflow's id."""
    program = (
        "import asyncio; from tests.agent.stub_workflows import serve_until_killed; "
        f"asyncio.run(serve_until_killed({temporal_server.address!r}, {task_queue!r}, {DEAD!r}))"
    )
    worker = subprocess.Popen([sys.executable, "-c", program])  # noqa: ASYNC220  # killed below, never waited for long
    handle = await client.start_workflow("PodWorkflow", id=f"pod/{uuid.uuid4()}/web", task_queue=task_queue)
    try:
        await until_asked(lambda: _in_a_step(client, handle.id))
        if let_go:
            await handle.signal("let_go")
            await until_asked(lambda: _in_a_step(client, handle.id, _CANCEL_REQUESTED))
    finally:
        worker.kill()
        worker.wait()
    yield handle.id
    with contextlib.suppress(RPCError):  # a test may have brought it to its end
        await handle.terminate()


@pytest.fixture
async def left_behind(client: Client, temporal_server: DevServer, task_queue: str) -> AsyncIterator[str]:
    """Kill a worker in the middle of a step; yields the workflow's id."""
    async with killed_in_a_step(client, temporal_server, task_queue) as workflow_id:
        yield workflow_id


async def _in_a_step(client: Client, workflow_id: str, state: int = _STARTED) -> bool:
    described = await client.get_workflow_handle(workflow_id).describe()
    return [step.state for step in described.raw_description.pending_activities] == [state]


async def test_a_dead_workers_step_is_retried_at_once_by_the_next_worker(
    client: Client, task_queue: str, left_behind: str
) -> None:
    assert await Takeover(client, task_queue, NEW).take(left_behind)

    handle = client.get_workflow_handle(left_behind)
    async with Worker(client, task_queue=task_queue, identity=NEW, workflows=[InAStep], activities=[answers]):
        # Its sticky queue, its heartbeat and its retry would each have taken ten minutes.
        assert await handle.result() == "try 2"


async def test_a_dead_workers_step_that_was_to_let_go_counts_as_cancelled_and_not_as_failed(
    client: Client, temporal_server: DevServer, task_queue: str
) -> None:
    """As failed, it would delay its pod by a back-off, for example a kill whose grace period was just shortened."""
    async with killed_in_a_step(client, temporal_server, task_queue, let_go=True) as workflow_id:
        assert await Takeover(client, task_queue, NEW).take(workflow_id)
        async with Worker(client, task_queue=task_queue, identity=NEW, workflows=[InAStep], activities=[answers]):
            assert await client.get_workflow_handle(workflow_id).result() == "CancelledError"


async def test_a_task_in_a_dead_workers_sticky_queue_is_given_to_the_next_worker_at_once(
    client: Client, temporal_server: DevServer, task_queue: str
) -> None:
    program = (
        "import asyncio; from tests.agent.stub_workflows import serve_recorder_until_killed; "
        f"asyncio.run(serve_recorder_until_killed({temporal_server.address!r}, {task_queue!r}, {DEAD!r}))"
    )
    worker = subprocess.Popen([sys.executable, "-c", program])  # noqa: ASYNC220  # killed below, never waited for long
    handles = [
        await client.start_workflow("PodWorkflow", id=f"pod/{uuid.uuid4()}/{name}", task_queue=task_queue)
        for name in ("a", "b")
    ]
    try:
        for handle in handles:
            assert await handle.query("received") == []  # now it is in the worker's cache
    finally:
        worker.kill()
        worker.wait()
    for handle in handles[1:]:
        await handle.signal("end")
    applying = asyncio.create_task(handles[0].execute_update("apply"))

    async def waits() -> bool:
        described = await handles[0].describe()
        return described.raw_description.HasField("pending_workflow_task")

    await until_asked(waits)

    takeover = Takeover(client, task_queue, NEW)
    assert await asyncio.gather(*(takeover.take_until_taken(handle.id) for handle in handles)) == [True, True]

    async with Worker(client, task_queue=task_queue, identity=NEW, workflows=[Recorder], activities=[answers]):
        # The server would take the tasks out of the dead worker's queue after ten minutes.
        async with asyncio.timeout(60):
            assert await applying == "applied"
        await handles[0].signal("end")
        for handle in handles:
            async with asyncio.timeout(60):
                await handle.result()


async def test_a_step_of_the_current_worker_is_left_alone(client: Client, task_queue: str, left_behind: str) -> None:
    assert await Takeover(client, task_queue, DEAD).take(left_behind)
    assert await _in_a_step(client, left_behind)


async def test_a_takeover_is_idempotent(client: Client, task_queue: str, left_behind: str) -> None:
    takeover = Takeover(client, task_queue, NEW)
    assert await takeover.take(left_behind)
    assert await takeover.take(left_behind)


async def test_closed_missing_and_foreign_workflows_are_not_taken_over(client: Client, task_queue: str) -> None:
    takeover = Takeover(client, task_queue, NEW)
    closed = await client.start_workflow("PodWorkflow", id=f"pod/{uuid.uuid4()}/web", task_queue=task_queue)
    await closed.terminate()
    other = await client.start_workflow("PodWorkflow", id=f"pod/{uuid.uuid4()}/web", task_queue=f"{task_queue}-other")

    assert not await takeover.take(closed.id)
    assert not await takeover.take(f"pod/{uuid.uuid4()}/none")
    assert not await takeover.take(other.id)
    await other.terminate()


async def test_open_pods_are_found_on_the_server_and_in_the_runtime(client: Client, task_queue: str) -> None:
    namespace = str(uuid.uuid4())
    takeover = Takeover(client, task_queue, NEW)
    handle = await client.start_workflow("PodWorkflow", id=pod_workflow_id(namespace, "a"), task_queue=task_queue)
    in_runtime = (ObservedPod(uid="u-b", namespace=namespace, name="b"),)

    async def listed() -> bool:
        return len(await takeover.open_pods(in_runtime)) == 2

    await until_asked(listed)
    a, b = await takeover.open_pods(in_runtime)
    assert (a.workflow_id, a.ref) == (handle.id, None)
    assert b.ref == PodRef(namespace=namespace, name="b", uid="u-b")
    (a, _) = await takeover.open_pods((*in_runtime, ObservedPod(uid="u-a", namespace=namespace, name="a")))
    assert a.ref == PodRef(namespace=namespace, name="a", uid="u-a")
    await handle.terminate()


async def test_a_workflow_is_asked_for_its_pod_if_the_runtime_has_another_of_its_name(
    client: Client, task_queue: str
) -> None:
    """A run that follows a deleted pod starts with that pod's search attributes."""
    assert await register_search_attributes(client)
    namespace, takeover = str(uuid.uuid4()), Takeover(client, task_queue, NEW)
    said = {"PodNamespace": namespace, "PodName": "a", "PodUID": "elder"}
    handle = await client.start_workflow(
        "PodWorkflow",
        id=pod_workflow_id(namespace, "a"),
        task_queue=task_queue,
        search_attributes=TypedSearchAttributes(
            [SearchAttributePair(SearchAttributeKey.for_keyword(name), value) for name, value in said.items()]
        ),
    )
    elder, heir = (ObservedPod(uid=uid, namespace=namespace, name="a") for uid in ("elder", "heir"))

    async def listed() -> bool:
        return len(await takeover.open_pods(())) == 1

    await until_asked(listed)
    of_elder = PodRef(namespace=namespace, name="a", uid="elder")
    found = [await takeover.open_pods(there) for there in ((), (elder,), (heir, elder), (heir,))]
    assert [pod.ref for (pod,) in found] == [of_elder, of_elder, of_elder, None]
    await handle.terminate()


async def test_a_workflow_without_search_attributes_is_asked_for_its_pod(client: Client, task_queue: str) -> None:
    takeover = Takeover(client, task_queue, NEW)
    handle = await client.start_workflow("PodWorkflow", id=f"pod/{uuid.uuid4()}/web", task_queue=task_queue)
    async with Worker(client, task_queue=task_queue, workflows=[Recorder], activities=[hangs]):
        assert await takeover.query_ref(handle.id) == PodRef(namespace="default", name="asked", uid="uid-by-query")
        assert await takeover.query_ref(f"pod/{uuid.uuid4()}/none") is None
    await handle.terminate()


@pytest.mark.parametrize(
    "answer", [{}, None, [], {"metadata": 5}, {"metadata": {"namespace": "default", "name": "web"}}]
)
async def test_a_refused_start_that_names_no_pod_has_ended(
    answer: object, task_queue: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody with access to the server can start one while no worker serves the node."""
    server = Mock(get_workflow_handle=lambda _: Mock(query=AsyncMock(return_value=answer)))
    takeover = Takeover(server, task_queue, NEW)
    monkeypatch.setattr(takeover, "take", AsyncMock(return_value=False))
    assert await takeover.query_ref("pod/default/evil") is None
    assert caplog.text == ""


async def test_a_run_that_names_no_pod_and_goes_on_is_asked_again(
    task_queue: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0)
    meta = {"namespace": "default", "name": "web", "uid": "u1"}
    query = AsyncMock(side_effect=[{}, {"metadata": {}}, {"metadata": meta}])
    takeover = Takeover(Mock(get_workflow_handle=lambda _: Mock(query=query)), task_queue, NEW)
    monkeypatch.setattr(takeover, "take", AsyncMock(return_value=True))
    assert await takeover.query_ref("pod/default/web") == PodRef(namespace="default", name="web", uid="u1")
    assert caplog.text.count("does not answer yet which pod it is: its answer names no pod") == 1


async def test_a_workflow_that_cannot_name_its_pod_yet_is_asked_again(
    client: Client, task_queue: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.1)
    handle = await client.start_workflow("PodWorkflow", id=f"pod/{uuid.uuid4()}/web", task_queue=task_queue)
    async with Worker(client, task_queue=task_queue, workflows=[Silent]):
        asking = asyncio.create_task(Takeover(client, task_queue, NEW).query_ref(handle.id))
        await until(lambda: "does not answer yet which pod it is" in caplog.text or asking.done())
        await handle.signal("may_answer")
        assert await asking == PodRef(namespace="default", name="asked", uid="uid-by-query")
    assert caplog.text.count("does not answer yet which pod it is") == 1
    await handle.terminate()


async def test_unanswered_questions_for_the_pod_are_logged_once(
    task_queue: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0)
    busy = RPCError("Timeout expired", RPCStatusCode.CANCELLED, b"")
    query = AsyncMock(side_effect=[busy, busy, RPCError("gone", RPCStatusCode.NOT_FOUND, b"")])
    server = Mock(get_workflow_handle=lambda _: Mock(query=query))
    assert await Takeover(server, task_queue, NEW).query_ref("pod/default/web") is None
    said = [line.message for line in caplog.records]
    assert said == ["workflow pod/default/web does not answer yet which pod it is: Timeout expired"]


async def test_a_defect_in_a_pods_takeover_is_logged_and_the_takeover_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "RESTART_SECONDS", 0)
    reader = Mock(read_all=AsyncMock(return_value=Relist(Seq(), {}, {})))
    ask = AsyncMock(side_effect=[KeyError("defect"), None])
    open_pods = AsyncMock(return_value=(OpenPod("pod/default/web", None),))
    take = AsyncMock(return_value=True)
    takeover = Mock(open_pods=open_pods, take_until_taken=take, query_ref=ask, close=AsyncMock())
    boot = Boot(reader, Mock(check=AsyncMock()), takeover, Mock(), Mock())
    await boot.run(None)
    await until(lambda: ask.await_count == 2)
    await boot.close()
    assert "the boot of pod/default/web failed" in caplog.text
