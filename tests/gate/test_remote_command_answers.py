"""Answers of a stolen node to its fleet's remote commands, by a hostile worker on the node's own queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.envconfig import ClientConnectConfig
from temporalio.worker import Worker

from syncpod.cli.failure import Failure
from syncpod.cli.fleet_endpoint import to_endpoint
from syncpod.cli.fleet_remote_commands import output_on, print_there, run_there
from syncpod.cli.streams.command_streams import Output
from syncpod.fleet_client import FleetAccess, connect_to_fleet, verifying_client
from syncpod.gate.authority import now
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.fleet import FLEET_QUEUE, FleetNodeView
from syncpod.messages.remote_command import (
    RUN_REMOTE_COMMAND,
    RemoteCommand,
    RemoteCommandChunk,
    RemoteCommandPiece,
    to_text,
)
from syncpod.signing.keys import EncryptingKeys, make_signing_keys
from syncpod.temporal.sealing import FleetKey, fleet_converter, node_codec
from syncpod.temporal.signed_steps import FleetSigningWorker
from tests.gate.conftest import Gated
from workflows.fleet.remote_command import RemoteCommandWorkflow
from workflows.runner import workflow_runner

NODE = FleetNodeView(name="n1", fleet="f", presence="Ready")
Answer = Callable[[RemoteCommand], Awaitable[Any]]


@asynccontextmanager
async def stolen(door: Gated, answer: Answer, *, seals: bool = True) -> AsyncIterator[Client]:
    """A client of the fleet whose node n1 gives this answer, by default sealed."""
    keys = FleetSealingKeys(door.fleet, now)
    access = FleetAccess(EncryptingKeys(make_signing_keys(door.fleet.directory)), keys)
    settings = ClientConnectConfig(target_host=door.behind, namespace="default")
    fleet = await connect_to_fleet(settings, access)
    pair = door.pair(NODE.name)
    codec = {"data_converter": fleet_converter(node_codec(pair.key, FleetKey(keys.public_pem())))} if seals else {}
    node = await door.client(NODE.name, pair, **codec)

    @activity.defn(name=RUN_REMOTE_COMMAND)
    async def run_remote_command(asked: RemoteCommand) -> Any:
        return await answer(asked)

    @activity.defn(name=RUN_REMOTE_COMMAND)
    async def run_unread(_asked: RawValue) -> Any:
        return await answer(RemoteCommand())

    carrier = Worker(
        verifying_client(fleet, access),
        task_queue=FLEET_QUEUE,
        workflows=[RemoteCommandWorkflow],
        interceptors=[FleetSigningWorker()],
        workflow_runner=workflow_runner(),
    )
    thief = Worker(
        node,
        task_queue=f"fleet-node/{NODE.name}",
        identity=f"fleet-node/{NODE.name}",
        activities=[run_remote_command if seals else run_unread],
        disable_eager_activity_execution=True,
    )
    async with carrier, thief:
        yield fleet


def saying(data: bytes, code: int | None = 0) -> RemoteCommandPiece:
    return RemoteCommandPiece(chunks=(RemoteCommandChunk(data=to_text(data)),), code=code)


async def test_an_answer_that_it_has_not_sealed_is_none(door: Gated) -> None:
    async def answer(_: RemoteCommand) -> Any:
        return {"code": 0}

    async with stolen(door, answer, seals=False) as fleet:
        with pytest.raises(Failure, match="the answer from node n1 is refused"):
            await output_on(fleet, NODE, ["explain", "web"])


@pytest.mark.parametrize("answer", [17, {"chunks": 3}, {"chunks": [{"data": "not base64"}]}])
async def test_an_answer_that_makes_no_sense_is_one_sentence(door: Gated, answer: Any) -> None:
    async def answered(_: RemoteCommand) -> Any:
        return answer

    async with stolen(door, answered) as fleet:
        with pytest.raises(Failure, match="the answer from node n1 cannot be read"):
            await output_on(fleet, NODE, ["explain", "web"])


async def test_an_answer_without_end_is_given_up(door: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncpod.cli.fleet_remote_commands._OUTPUT_BYTES", 2**20)

    async def answer(_: RemoteCommand) -> RemoteCommandPiece:
        return saying(b"x" * 2**18, None)

    async with stolen(door, answer) as fleet:
        with pytest.raises(Failure, match="has more than 1 MiB"):
            await output_on(fleet, NODE, ["explain", "web"])


async def test_what_it_explains_does_nothing_to_a_terminal(door: Gated, capsys: pytest.CaptureFixture[str]) -> None:
    async def answer(_: RemoteCommand) -> RemoteCommandPiece:
        return saying(b"\x1b]0;mine\x07pod web\n", 99_999)

    async with stolen(door, answer) as fleet:
        with pytest.raises(Failure) as failure:
            await print_there(fleet, NODE, ["explain", "web"])
    assert failure.value.code == 1
    assert capsys.readouterr().out == "\\x1b]0;mine\\x07pod web\n"


async def test_what_is_no_command_for_a_node_is_not_carried(door: Gated) -> None:
    async def answer(_: RemoteCommand) -> RemoteCommandPiece:
        raise AssertionError

    async with stolen(door, answer) as fleet:
        with pytest.raises(Failure, match="a node runs describe, exec, explain, logs, top for its fleet"):
            await output_on(fleet, NODE, ["down", "--purge"])


async def test_a_node_whose_endpoint_cannot_be_reached_is_asked_through_its_polls(
    door: Gated, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer(_: RemoteCommand) -> RemoteCommandPiece:
        return saying(b"through polls\n")

    said = bytearray()

    async def write(_: Output, data: bytes) -> None:
        said.extend(data)

    away = NODE.model_copy(update={"fleet": door.fleet.id, "endpoint": "127.0.0.1:1"})
    state_dir = str(door.fleet.directory.parent)
    async with stolen(door, answer) as fleet:
        assert await run_there(fleet, away, ["exec", "web", "--", "date"], write=write, state_dir=state_dir) == 0
    assert said == b"through polls\n"
    assert capsys.readouterr().err == (
        "Note: node n1 cannot be reached at 127.0.0.1:1: connection refused; so the request goes through its polls\n"
    )
    with pytest.raises(Failure, match="a terminal needs the node's own endpoint, and node n1 cannot be reached at"):
        async with to_endpoint(state_dir, away, "a terminal"):
            pass
    with pytest.raises(Failure, match="needs a node that listens, and n1 does not: run `syncpod join --listen"):
        async with to_endpoint(state_dir, NODE, "port-forward"):
            pass
