"""Attacks by a stolen node and by a stranger; docs/engineering/attacks.md has a row for each of these tests.

Holds: A node's certificate is good for its own task queue and its own tasks only.
Holds: Revoking, expiry and retiring take effect at once, also on open connections.
Holds: The gate may die at any moment.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc._cython.cygrpc import ExecuteBatchError  # type: ignore[import-not-found]
from temporalio import workflow
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.api.failure.v1 import Failure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.worker.v1 import WorkerHeartbeat
from temporalio.api.workflowservice.v1 import request_response_pb2 as wire
from temporalio.api.workflowservice.v1 import service_pb2
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from syncpod.gate import bounds, refusals
from syncpod.gate import gate as gates
from syncpod.gate.authority import Pair, now, open_fleet
from syncpod.gate.calls import NodeCalls
from syncpod.gate.tokens import TaskTokens
from syncpod.rare_lines import RareLines
from tests.gate.conftest import NAMESPACE, SERVICE, Gated, gated, served
from tests.runtimes.temporal import DevServer

DENIED = grpc.StatusCode.PERMISSION_DENIED
METHODS = [method.name for method in service_pb2.DESCRIPTOR.services_by_name["WorkflowService"].methods]
OF_A_NODE = {
    "GetSystemInfo", "GetClusterInfo", "DescribeNamespace", "PollActivityTaskQueue", "RespondActivityTaskCompleted",
    "RespondActivityTaskFailed", "RespondActivityTaskCanceled", "RecordActivityTaskHeartbeat", "RecordWorkerHeartbeat",
    "ShutdownWorker",
}  # fmt: skip
OTHERS = (
    "/temporal.api.operatorservice.v1.OperatorService/ListSearchAttributes",
    "/temporal.api.operatorservice.v1.OperatorService/DeleteNamespace",
    "/temporal.server.api.adminservice.v1.AdminService/DescribeHistoryHost",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/x",
)


async def call(channel: grpc.aio.Channel, method: str, request: Any, seconds: float = 20) -> bytes:
    path = method if method.startswith("/") else SERVICE + method
    said = request if isinstance(request, bytes) else request.SerializeToString()
    called: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    return await called(said, timeout=seconds)


async def refused(channel: grpc.aio.Channel, method: str, request: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(channel, method, request)
    return caught.value.code(), caught.value.details() or ""


def poll(queue: str, **more: Any) -> wire.PollActivityTaskQueueRequest:
    kind = more.pop("kind", TaskQueueKind.TASK_QUEUE_KIND_NORMAL)
    return wire.PollActivityTaskQueueRequest(
        namespace=more.pop("namespace", NAMESPACE), task_queue=TaskQueue(name=queue, kind=kind), **more
    )


async def polled(channel: grpc.aio.Channel, node: str) -> wire.PollActivityTaskQueueResponse:
    answer = await call(channel, "PollActivityTaskQueue", poll(f"fleet-node/{node}"))
    return wire.PollActivityTaskQueueResponse.FromString(answer)


def completed(token: bytes, word: str = '"done"') -> wire.RespondActivityTaskCompletedRequest:
    result = Payloads(payloads=[Payload(metadata={"encoding": b"json/plain"}, data=word.encode())])
    return wire.RespondActivityTaskCompletedRequest(namespace=NAMESPACE, task_token=token, result=result)


@workflow.defn(name="AskOnce", sandboxed=False)
class AskOnce:
    """A workflow that runs one activity on a node, which is retried until there is an answer."""

    @workflow.run
    async def run(self, node: str) -> Any:
        return await workflow.execute_activity(
            "anything", "a spec", task_queue=f"fleet-node/{node}", start_to_close_timeout=timedelta(seconds=60)
        )


@asynccontextmanager
async def asking(door: Gated, node: str) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    """Start a workflow of the fleet that waits for a node."""
    fleet = await Client.connect(door.behind)
    queue = f"fleet-{uuid.uuid4()}"
    async with Worker(fleet, task_queue=queue, workflows=[AskOnce], workflow_runner=UnsandboxedWorkflowRunner()):
        handle = await fleet.start_workflow(AskOnce.run, node, id=queue, task_queue=queue)
        try:
            yield handle
        finally:
            await handle.terminate() if (await handle.describe()).close_time is None else None


@asynccontextmanager
async def connected(door: Gated, *nodes: str) -> AsyncIterator[list[grpc.aio.Channel]]:
    channels = [door.channel(door.pair(node)) for node in nodes]
    try:
        yield channels
    finally:
        for channel in channels:
            await channel.close()


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await is_so():  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.05)


async def test_every_other_call_is_refused(door: Gated) -> None:
    assert set(METHODS) > OF_A_NODE
    async with connected(door, "b") as [b]:
        for method in (*(name for name in METHODS if name not in OF_A_NODE), *OTHERS):
            code, sentence = await refused(b, method, b"")
            assert code is DENIED, method
            assert sentence.startswith("a node may only poll its own task queue and answer its own tasks, not call")


async def test_a_stream_is_refused(door: Gated) -> None:
    async with connected(door, "b") as [b]:
        stream: Any = b.stream_stream(SERVICE + "PollWorkflowTaskQueue")()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
    assert caught.value.code() is DENIED


@pytest.mark.parametrize(
    "asked",
    [
        poll("fleet-node/a"),
        poll("fleet"),
        poll("fleet-node/b/"),
        poll("fleet-node/B"),
        poll("/_sys/fleet-node/a/1"),
        poll("fleet-node/b", kind=TaskQueueKind.TASK_QUEUE_KIND_STICKY),
        poll("fleet-node/b", namespace="temporal-system"),
        poll("fleet-node/b", namespace=""),
    ],
    ids=str,
)
async def test_no_other_queue_is_polled(door: Gated, asked: wire.PollActivityTaskQueueRequest) -> None:
    async with connected(door, "b") as [b]:
        code, sentence = await refused(b, "PollActivityTaskQueue", asked)
    assert code is DENIED
    assert "only" in sentence


async def test_nobody_else_answers_for_a_node(door: Gated) -> None:
    """Each answer, with the node's token, the server's own, a changed one, and none."""
    async with connected(door, "a", "b") as [a, b], asking(door, "a") as handle:
        task = await polled(a, "a")
        token = task.task_token
        forged = [token, token[36:], b"", token[:-1], b"sp1." + bytes(32) + token[36:], token + b"x"]
        for each in forged:
            answers = (
                ("RespondActivityTaskCompleted", completed(each)),
                (
                    "RespondActivityTaskFailed",
                    wire.RespondActivityTaskFailedRequest(
                        namespace=NAMESPACE, task_token=each, failure=Failure(message="no")
                    ),
                ),
                (
                    "RespondActivityTaskCanceled",
                    wire.RespondActivityTaskCanceledRequest(namespace=NAMESPACE, task_token=each),
                ),
                (
                    "RecordActivityTaskHeartbeat",
                    wire.RecordActivityTaskHeartbeatRequest(namespace=NAMESPACE, task_token=each),
                ),
            )
            for method, request in answers:
                assert await refused(b, method, request) == (DENIED, "the task was not given to this node")
        await call(a, "RespondActivityTaskCompleted", completed(token))
        assert await handle.result() == "done"


async def test_an_answer_after_the_gate_restarted_counts(tmp_path: Path, temporal_server: DevServer) -> None:
    fleet = open_fleet(tmp_path / "fleet", now())
    pair = fleet.issue("a", timedelta(hours=1), now())
    async with AsyncExitStack() as asked:
        async with served(fleet, temporal_server.address) as door:
            handle = await asked.enter_async_context(asking(door, "a"))
            first = door.channel(pair)
            token = (await polled(first, "a")).task_token
            await first.close()
        async with served(fleet, temporal_server.address) as door:
            second = door.channel(pair)
            await call(second, "RespondActivityTaskCompleted", completed(token))
            assert await handle.result() == "done"
            await second.close()


async def test_a_node_speaks_in_its_own_name(door: Gated) -> None:
    """The identity, deployment and worker that a node names are not passed on."""
    fleet = await Client.connect(door.behind)
    async with connected(door, "b") as [b], asking(door, "b") as handle:
        asked = poll("fleet-node/b", identity="fleet-node/a", worker_instance_key="key")
        asked.deployment_options.deployment_name = "mine"
        asked.deployment_options.build_id = "1"
        task = wire.PollActivityTaskQueueResponse.FromString(await call(b, "PollActivityTaskQueue", asked))
        answer = completed(task.task_token)
        answer.identity = "fleet-node/a"
        await call(b, "RespondActivityTaskCompleted", answer)
        await handle.result()
        events = [event async for event in handle.fetch_history_events()]
        said = {event.activity_task_started_event_attributes.identity for event in events}
        said |= {event.activity_task_completed_event_attributes.identity for event in events}
        assert said == {"", "fleet-node/b"}
    beat = WorkerHeartbeat(worker_instance_key="key", worker_identity="fleet-node/a", task_queue="fleet-node/a")
    request = wire.RecordWorkerHeartbeatRequest(namespace=NAMESPACE, identity="x", worker_heartbeat=[beat])
    async with connected(door, "b") as [b]:
        assert (await refused(b, "RecordWorkerHeartbeat", request))[0] is DENIED
        beat.task_queue = "fleet-node/b"
        request = wire.RecordWorkerHeartbeatRequest(namespace=NAMESPACE, identity="x", worker_heartbeat=[beat])
        await call(b, "RecordWorkerHeartbeat", request)
        shutdown = wire.ShutdownWorkerRequest(namespace=NAMESPACE, task_queue="fleet-node/a", worker_instance_key="key")
        assert (await refused(b, "ShutdownWorker", shutdown))[0] is DENIED
    deployments = await fleet.workflow_service.list_worker_deployments(
        wire.ListWorkerDeploymentsRequest(namespace=NAMESPACE)
    )
    assert not deployments.worker_deployments


def test_a_key_of_another_nodes_worker_ends_no_poll_of_it() -> None:
    calls = NodeCalls(NAMESPACE, TaskTokens(bytes(32)))
    asked = wire.ShutdownWorkerRequest(namespace=NAMESPACE, worker_instance_key="key", sticky_task_queue="sticky")
    passed = {
        node: wire.ShutdownWorkerRequest.FromString(
            calls.forwarded(node, SERVICE + "ShutdownWorker", asked.SerializeToString()).request
        )
        for node in ("a", "b")
    }
    assert [each.worker_instance_key for each in passed.values()] == ["a/key", "b/key"]
    assert not any(each.sticky_task_queue for each in passed.values())


async def test_of_the_namespace_and_the_cluster_little_is_told(door: Gated) -> None:
    async with connected(door, "b") as [b]:
        asked = wire.DescribeNamespaceRequest(namespace=NAMESPACE)
        told = wire.DescribeNamespaceResponse.FromString(await call(b, "DescribeNamespace", asked))
        cluster = wire.GetClusterInfoResponse.FromString(await call(b, "GetClusterInfo", wire.GetClusterInfoRequest()))
        other = await refused(b, "DescribeNamespace", wire.DescribeNamespaceRequest(namespace="temporal-system"))
        by_id = await refused(b, "DescribeNamespace", wire.DescribeNamespaceRequest(id=told.namespace_info.id))
    assert [field.name for field, _ in told.ListFields()] == ["namespace_info"]
    assert not cluster.persistence_store
    assert other[0] is by_id[0] is DENIED


async def test_what_cannot_be_read_is_refused(door: Gated) -> None:
    async with connected(door, "b") as [b]:
        code, _ = await refused(b, "PollActivityTaskQueue", b"\xff\xff\xff")
    assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_huge_message_is_refused_and_hurts_nobody(door: Gated) -> None:
    async with connected(door, "a", "b") as [a, b]:
        code, _ = await refused(b, "RespondActivityTaskCompleted", bytes(gates._LARGEST + 1))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        await call(a, "GetSystemInfo", wire.GetSystemInfoRequest())


async def test_a_poll_that_a_node_gave_up_is_given_up_behind(door: Gated) -> None:
    """Otherwise the server hands the task to it, and the task waits for its timeout."""
    pair = door.pair("a")
    gone = door.channel(pair)
    given_up = asyncio.create_task(polled(gone, "a"))
    await until(lambda: polls(door, "a"))
    await gone.close()
    await asyncio.gather(given_up, return_exceptions=True)
    await until(lambda: no_call(door))
    async with connected(door, "a") as [a], asking(door, "a") as handle:
        task = await polled(a, "a")
        assert task.attempt == 1
        await call(a, "RespondActivityTaskCompleted", completed(task.task_token))
        assert await handle.result() == "done"


async def test_a_node_that_says_nothing_any_more_loses_its_polls(
    tmp_path: Path, temporal_server: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that is cut off or stopped does not receive and lose tasks."""
    sooner = {"grpc.keepalive_time_ms": 1_000, "grpc.http2.ping_timeout_ms": 500}
    options = tuple((name, sooner.get(name, value)) for name, value in gates._SERVER_OPTIONS)
    monkeypatch.setattr(gates, "_SERVER_OPTIONS", options)
    async with gated(tmp_path / "fleet", temporal_server.address) as door:
        pair = door.pair("a")
        port = int(door.address.rpartition(":")[2])
        script = [sys.executable, "-c", _POLLS, str(port), door.fleet.server_name]
        said = "\0".join((pair.key, pair.certificate, door.fleet.authorities_pem()))
        with subprocess.Popen(script, stdin=subprocess.PIPE, text=True) as node:  # noqa: ASYNC220
            try:
                assert node.stdin is not None
                node.stdin.write(said)
                node.stdin.close()
                await until(lambda: polls(door, "a"))
                node.send_signal(signal.SIGSTOP)
                async with asyncio.timeout(30):  # by itself the poll would end later
                    await until(lambda: no_call(door))
            finally:
                node.kill()


_POLLS = """
import grpc, sys
from tests.gate.test_attacks import poll
key, certificate, roots = (each.encode() for each in sys.stdin.read().split("\\0"))
channel = grpc.secure_channel(
    f"127.0.0.1:{sys.argv[1]}", grpc.ssl_channel_credentials(roots, key, certificate),
    options=[("grpc.ssl_target_name_override", sys.argv[2])])
asked = poll("fleet-node/a").SerializeToString()
channel.unary_unary("/temporal.api.workflowservice.v1.WorkflowService/PollActivityTaskQueue")(asked, timeout=600)
"""


async def no_call(door: Gated) -> bool:
    return not door.gate._bounds._calls


async def polls(door: Gated, node: str) -> bool:
    return await has_calls(door, node, 1)


async def test_a_revoked_node_is_cut_off_at_once(door: Gated, caplog: pytest.LogCaptureFixture) -> None:
    """The poll that it has open ends, and no handshake succeeds."""
    pair = door.pair("b")
    channel = door.channel(pair)
    poll_of_it = asyncio.create_task(polled(channel, "b"))
    await until(lambda: polls(door, "b"))
    assert len(door.fleet.revoke("b", now())) == 1
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await poll_of_it
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    await channel.close()
    assert await handshake(door, pair) == CLOSED
    assert "certificate revoked" in caplog.text
    with pytest.raises(RuntimeError):
        await door.client("b", pair)
    await door.client("b")  # invited again


CLOSED = "closed"


async def handshake(door: Gated, pair: Pair | None) -> str:
    """Try TLS with this certificate; return CLOSED, or "" if the gate then speaks HTTP/2."""
    host, _, port = door.address.rpartition(":")
    context = ssl.create_default_context(cadata=door.fleet.authorities_pem())
    context.set_alpn_protocols(["h2"])
    if pair is not None:
        file = door.fleet.directory / "shown.pem"
        file.write_text(pair.certificate + pair.key)
        context.load_cert_chain(file)
    name = door.fleet.server_name
    try:
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=name)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        said = await reader.read(1)  # in TLS 1.3, the client gets the server's verdict only now
        writer.transport.abort()
        return "" if said else CLOSED
    except OSError:
        return CLOSED


async def test_strangers_get_no_further_than_the_handshake(
    door: Gated, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RareLines, "left_out", lambda *_: 0)
    other = open_fleet(tmp_path / "other", now())
    shown = {
        "peer did not return a certificate": None,
        "unable to get local issuer certificate": other.issue("a", timedelta(hours=1), now()),
        "certificate has expired": door.fleet.issue("a", timedelta(minutes=1), now() - timedelta(hours=1)),
        "unsuitable certificate purpose": door.fleet.issue_gate([], now()),
    }
    assert await handshake(door, door.pair("a")) == ""
    for reason, pair in shown.items():
        caplog.clear()
        assert await handshake(door, pair) == CLOSED
        assert reason in caplog.text
    unrecorded = door.pair("a")
    for record in (door.fleet.directory / "certificates").iterdir():
        record.unlink()
    assert await handshake(door, unrecorded) == CLOSED, "what the fleet keeps no record of, it could not revoke"


async def test_a_certificate_that_expires_ends_its_connections(door: Gated) -> None:
    pair = door.fleet.issue("b", timedelta(seconds=3), now())
    channel = door.channel(pair)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await polled(channel, "b")
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    await channel.close()


async def test_a_hundred_connections_of_a_node_leave_room_for_others(door: Gated) -> None:
    pair = door.pair("b")
    channels = [door.channel(pair) for _ in range(100)]
    try:
        calls = (call(each, "GetSystemInfo", wire.GetSystemInfoRequest(), 5) for each in channels)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(answer, bytes) for answer in answers) <= bounds.CONNECTIONS
        assert door.gate._bounds._connections["b"] <= bounds.CONNECTIONS
        async with connected(door, "a") as [a]:
            await call(a, "GetSystemInfo", wire.GetSystemInfoRequest())
    finally:
        await asyncio.gather(*(channel.close() for channel in channels))


async def test_calls_beyond_a_nodes_part_are_refused(door: Gated, caplog: pytest.LogCaptureFixture) -> None:
    async with connected(door, "a", "b") as [a, b]:
        expected, said = (grpc.StatusCode.RESOURCE_EXHAUSTED, "a node may make at most 50 calls a second"), set()
        while expected not in said:  # a busy machine resets the streams of a whole crowd
            calls = (call(b, "GetSystemInfo", wire.GetSystemInfoRequest()) for _ in range(2 * bounds.BURST))
            answers = await asyncio.gather(*calls, return_exceptions=True)
            said = {(answer.code(), answer.details()) for answer in answers if isinstance(answer, grpc.aio.AioRpcError)}
        await call(a, "GetSystemInfo", wire.GetSystemInfoRequest())
    lines = [record for record in caplog.records if "refused: node b" in record.getMessage()]
    assert len(lines) <= 2


async def test_calls_that_send_nothing_are_a_nodes_own_trouble(door: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC would keep each half message of such calls."""
    monkeypatch.setattr(gates, "READ_SECONDS", 1.0)
    async with connected(door, "a", "b", "b") as [a, b, again]:
        silent: list[Any] = [b.stream_unary(SERVICE + "RespondActivityTaskCompleted")() for _ in range(bounds.CALLS)]
        await until(lambda: has_calls(door, "b", bounds.CALLS))
        code, sentence = await refused(again, "GetSystemInfo", b"")
        assert (code, sentence) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "a node may have at most 64 calls at once")
        await call(a, "GetSystemInfo", b"")
        codes = await asyncio.gather(*(each.code() for each in silent))
        assert set(codes) == {grpc.StatusCode.INVALID_ARGUMENT}
        await call(again, "GetSystemInfo", b"")


async def has_calls(door: Gated, node: str, count: int) -> bool:
    return door.gate._bounds._calls[node] == count


async def test_a_server_that_is_away_is_said_without_its_address(tmp_path: Path) -> None:
    async with gated(tmp_path / "fleet", "127.0.0.1:1") as door, connected(door, "a") as [a]:
        assert await refused(a, "GetSystemInfo", wire.GetSystemInfoRequest()) == (
            grpc.StatusCode.UNAVAILABLE,
            "the fleet's server cannot be reached",
        )


async def test_a_message_that_grows_when_unpacked_is_refused(door: Gated) -> None:
    channel = door.channel(door.pair("b"), compression=grpc.Compression.Gzip)
    code, sentence = await refused(channel, "RespondActivityTaskCompleted", bytes(64 * 2**20))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED, sentence
    await channel.close()


async def test_a_message_that_unpacks_to_too_much_is_refused_in_one_line(
    door: Gated, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "READ_SECONDS", 1.0)
    channel = door.channel(door.pair("b"), compression=grpc.Compression.Gzip)
    for _ in range(8):
        code, sentence = await refused(channel, "RecordWorkerHeartbeat", bytes(8 * 2**20))
        assert (code, sentence) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "Decompressed message larger than max")
    code, _ = await refused(channel, "PollWorkflowTaskQueue", b"")
    assert code is DENIED
    await channel.close()
    assert caplog.text.count("the request cannot be read") == 1


def test_grpcs_tracebacks_of_calls_that_are_gone_are_left_out_and_others_are_logged() -> None:
    """It writes them now and then, if it refuses a message as the gate refuses the call."""
    limits = refusals.GoneCalls()

    def is_logged(error: Exception) -> bool:
        told = logging.LogRecord("grpc._cython.cygrpc", logging.ERROR, "", 0, "raised in core", (), None)
        told.exc_info = type(error), error, None
        return limits.filter(told)

    assert not is_logged(ExecuteBatchError("Failed"))
    assert is_logged(TypeError("a defect"))
