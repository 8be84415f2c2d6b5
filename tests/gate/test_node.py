"""A node with the real SDK: all its calls pass the gate."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from syncpod.agent.fleet.contact import Contact
from syncpod.agent.fleet.link import Dismissed, FleetLink, require_not_dismissed, to_gate
from syncpod.gate.authority import Pair, now, open_fleet
from syncpod.gate.gate import Gate, TemporalFrontend
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.fleet import MACHINE_HEADER
from syncpod.messages.node import NodeView
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import keep_membership, machine_proof
from syncpod.signing.keys import make_signing_keys
from syncpod.temporal.plugin import NoServer
from syncpod.temporal.sealing import FleetKey
from tests.agent.waiting import until, until_asked
from tests.gate.conftest import SERVICE, Gated


@workflow.defn(name="Ask", sandboxed=False)
class Ask:
    """A workflow that runs one activity on a node."""

    @workflow.run
    async def run(self, node: str, name: str, word: str) -> Any:
        return await workflow.execute_activity(
            name,
            word,
            task_queue=f"fleet-node/{node}",
            start_to_close_timeout=timedelta(seconds=20),
            heartbeat_timeout=timedelta(seconds=5),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )


@activity.defn
async def echo(word: str) -> str:
    """Return the word with the task queue on which it was received."""
    activity.heartbeat("alive")
    return f"{word} from {activity.info().task_queue}"


@asynccontextmanager
async def second_gate(door: Gated, directory: Path, node: str) -> AsyncIterator[Gated]:
    """A gate of another fleet whose server is the first gate, which knows it as one of its nodes."""
    own = door.pair(node)
    behind = TemporalFrontend(
        door.address,
        "default",
        tls=True,
        roots=door.fleet.authorities_pem().encode(),
        certificate=own.certificate.encode(),
        key=own.key.encode(),
        domain=door.fleet.server_name,
    )
    fleet = open_fleet(directory, now())
    gate = Gate(fleet, make_signing_keys(fleet.directory), behind, [])
    port = await gate.start("127.0.0.1", 0)
    try:
        yield Gated(fleet, gate, f"127.0.0.1:{port}", "")
    finally:
        await gate.close()


async def test_the_server_behind_may_ask_for_certificates_too(door: Gated, tmp_path: Path) -> None:
    async with second_gate(door, tmp_path / "second", "second-gate") as second:
        client = await second.client("a")
        assert await client.service_client.check_health()


def invitation(door: Gated, node: str, pair: Pair) -> Invitation:
    return Invitation(
        fleet=door.fleet.id,
        node=node,
        address=door.address,
        server_name=door.fleet.server_name,
        namespace="default",
        authorities=door.fleet.authorities_pem(),
        certificate=pair.certificate,
        key=pair.key,
        fleet_key=FleetSealingKeys(door.fleet, now).public_pem(),
    )


@dataclass
class Leaver:
    """A member that counts the requests to end its pods."""

    told: int = 0

    async def dismiss(self) -> None:
        self.told += 1

    async def send_again(self, _view: NodeView | None) -> None:
        """Do nothing: there is no list."""

    async def mind_silence(self) -> None:
        """Do nothing: there are no pods."""


async def test_a_node_that_was_removed_while_it_was_away_is_told_when_it_is_back(door: Gated, tmp_path: Path) -> None:
    """It may do nothing else; and after a new invitation or a revocation it gets no such message."""
    pair, leaver = door.pair("b"), Leaver()
    (serial,) = door.fleet.dismiss("b")
    keep_membership(tmp_path, invitation(door, "b", pair))

    async def view() -> NodeView | None:
        return None

    member: Any = leaver
    link = FleetLink(
        tmp_path, "b", Contact(tmp_path), lambda _: member, lambda _: [echo], view=view, to_fleet=to_gate(tmp_path)
    )
    running = asyncio.create_task(link.run())
    try:
        await until(lambda: leaver.told > 0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    channel = door.channel(pair)
    shown = ((MACHINE_HEADER, machine_proof(tmp_path, invitation(door, "b", pair))),)
    for method in ("PollActivityTaskQueue", "RespondActivityTaskCompleted", "DescribeNamespace"):
        with pytest.raises(grpc.aio.AioRpcError, match="was removed from the fleet"):
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(SERVICE + method)
            await call(b"", metadata=shown)
    await channel.close()
    assert [each.dismissed for each in door.fleet.issued()] == [True]
    door.pair("b")
    assert [(each.revoked, each.dismissed) for each in door.fleet.issued() if each.serial == serial] == [(True, False)]

    async def is_kept_out() -> bool:
        with contextlib.suppress(Dismissed):
            with pytest.raises(NoServer):
                invited = invitation(door, "b", pair)
                await to_gate(tmp_path)(invited, FleetKey(invited.fleet_key))
            return True
        return False

    await until_asked(is_kept_out)


async def test_a_node_that_runs_while_it_is_removed_is_told_on_its_next_connection(door: Gated) -> None:
    pair = door.pair("b")
    client = await door.client("b", pair)
    assert await client.service_client.check_health()
    door.fleet.dismiss("b")

    async def is_told() -> bool:
        try:
            await client.service_client.check_health()
        except RPCError as error:
            try:
                require_not_dismissed(error, "b")
            except Dismissed:
                return True
        return False

    await until_asked(is_told)


async def test_whoever_has_the_server_cannot_tell_a_node_that_it_was_removed(door: Gated, tmp_path: Path) -> None:
    """It would end the node's pods. Here the server is a gate that sends this to the second gate, named as the node."""
    async with second_gate(door, tmp_path / "second", "a") as second:
        client = await second.client("a")
        door.fleet.dismiss("a")

        async def is_refused() -> bool:
            try:
                await client.service_client.check_health()
            except RPCError as error:
                require_not_dismissed(error, "a")
                return error.status == RPCStatusCode.FAILED_PRECONDITION
            return False

        await until_asked(is_refused)


async def test_a_node_polls_heartbeats_and_answers(door: Gated) -> None:
    fleet = await Client.connect(door.behind)
    queue = f"fleet-{uuid.uuid4()}"
    node = await door.client("a")
    async with (
        Worker(fleet, task_queue=queue, workflows=[Ask], workflow_runner=UnsandboxedWorkflowRunner()),
        Worker(node, task_queue="fleet-node/a", activities=[echo]),
    ):
        answer = await fleet.execute_workflow(Ask.run, args=["a", "echo", "hi"], id=queue, task_queue=queue)
    assert answer == "hi from fleet-node/a"
