"""A gate refuses a server that has another fleet, at its start and later."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from pathlib import Path

import grpc
import pytest
from temporalio.api.common.v1 import Memo, Payload
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    ListWorkflowExecutionsResponse,
    PollActivityTaskQueueRequest,
    RegisterNamespaceRequest,
)
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.service import RPCError

from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import Gate, TemporalFrontend
from syncpod.gate.ownership import METHOD, Ownership
from syncpod.messages.encryption import ENCODING, ENCRYPTED, FLEET
from syncpod.messages.fleet import FLEET_NODE_MEMO, FLEET_NODE_WORKFLOW, FLEET_QUEUE
from syncpod.messages.held_fleet import HELD_QUERY
from syncpod.settings.values import SettingsInvalid
from syncpod.signing.keys import make_signing_keys
from tests.agent.waiting import until_asked
from tests.gate.conftest import NAMESPACE, SERVICE, Gated
from tests.runtimes.temporal import DevServer


class Behind:
    """A server with workflows of these fleets; with None, it does not answer."""

    def __init__(self) -> None:
        self.fleets: list[str] | None = []
        self.asked = 0

    async def call(self, method: str, _request: bytes) -> bytes:
        assert method == METHOD
        self.asked += 1
        if self.fleets is None:
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())
        memos = [Memo(fields={FLEET_NODE_MEMO: said(each)}) for each in self.fleets]
        listed = [WorkflowExecutionInfo(memo=each) for each in memos]
        return ListWorkflowExecutionsResponse(executions=listed).SerializeToString()


def said(fleet: str) -> Payload:
    """The memo of a fleet's workflow, with the fleet's id."""
    return Payload(metadata={ENCODING: ENCRYPTED, FLEET: fleet.encode()}, data=b"something")


async def test_whose_a_server_is_is_asked_until_it_is_known_and_again_after_it_was_away() -> None:
    behind = Behind()
    ownership = Ownership("mine", NAMESPACE, behind.call)
    for fleets, expected, asked in (
        (None, "", 1),
        ([], "", 2),
        (["theirs"], "namespace default of the server holds fleet theirs, and the keys here are of fleet mine: ", 3),
        (["theirs", "mine"], "", 4),
        (["theirs"], "", 4),  # it is known
    ):
        behind.fleets = fleets
        why = await ownership.why_not()
        assert (why.startswith(expected) if expected else not why, behind.asked) == (True, asked)
    ownership.forget()
    assert await ownership.why_not()


@pytest.fixture
async def client(temporal_server: DevServer) -> Client:
    """A client of a new namespace, which holds no fleet."""
    client = await Client.connect(temporal_server.address, namespace=f"fleet-{uuid.uuid4().hex[:8]}")
    request = RegisterNamespaceRequest(namespace=client.namespace)
    request.workflow_execution_retention_period.FromSeconds(86_400)
    await client.workflow_service.register_namespace(request)

    async def is_known() -> bool:
        with contextlib.suppress(RPCError):
            return (await client.count_workflows("")).count == 0
        return False

    await until_asked(is_known)
    return client


async def test_a_gate_passes_on_no_poll_to_another_fleets_server_and_does_not_start_before_it(
    tmp_path: Path, client: Client
) -> None:
    fleet = await asyncio.to_thread(open_fleet, tmp_path, now())
    keys = make_signing_keys(fleet.directory)
    behind = TemporalFrontend(client.service_client.config.target_host, client.namespace)

    async def is_held() -> bool:
        return (await client.count_workflows(HELD_QUERY)).count > 0

    gate = Gate(fleet, keys, behind, ["localhost"])
    port = await gate.start("127.0.0.1", 0)
    try:
        memo = {FLEET_NODE_MEMO: RawValue(said("theirs"))}
        await client.start_workflow(FLEET_NODE_WORKFLOW, id="fleet-node/n1", task_queue=FLEET_QUEUE, memo=memo)
        await until_asked(is_held)
        door = Gated(fleet, gate, f"127.0.0.1:{port}", "")
        async with door.channel(door.pair("n2")) as channel:
            asked = PollActivityTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name="fleet-node/n2"))
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                f"{SERVICE}PollActivityTaskQueue"
            )
            with pytest.raises(grpc.aio.AioRpcError, match="the server behind the fleet's gate holds another fleet"):
                await call(asked.SerializeToString(), timeout=20)
    finally:
        await gate.close()
    assert [each.id async for each in client.list_workflows()] == ["fleet-node/n1"], "the node was introduced"

    holds = f"namespace {client.namespace} of the server holds fleet theirs, and the keys here are of fleet {fleet.id}:"
    gate = Gate(fleet, keys, behind, ["localhost"])
    try:
        with pytest.raises(SettingsInvalid, match=holds):
            await gate.start("127.0.0.1", 0)
    finally:
        await gate.close()
