"""Messages between a fleet and a node can be read and made by nobody else.

Holds: Nobody else reads or forges a sealed message between a fleet and a node.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from hypothesis import given
from hypothesis import strategies as st
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.exceptions import ActivityError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from syncpod.fleet_client import FleetAccess
from syncpod.gate.authority import Fleet, now, open_fleet
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.encryption import ENCRYPTED, KEY, UNKNOWN_KEY, Undecipherable
from syncpod.messages.sealing import Fresh, Unsealable, open_sealed, public_key_id, seal
from syncpod.messages.signature import Keys, PayloadPlace
from syncpod.messages.signed import Refused
from syncpod.signing.keys import EncryptingKeys, make_signing_keys
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.sealed_questions import QUIET_SECONDS, RefusesUnsealed
from syncpod.temporal.sealing import FleetCodec, FleetKey, NodeCodec, fleet_converter, node_codec
from syncpod.temporal.signing import REFUSAL
from tests.gate.conftest import Gated

FLEET, NODE, OTHER = (generate_private_key(SECP256R1()) for _ in range(3))
PLACE = PayloadPlace("default", "fleet-node/a", "", "take_intent")
SPEC = "a-spec-that-nobody-may-read"


def fresh() -> Fresh:
    return Fresh.made()


def opened(
    metadata: dict[str, bytes],
    data: bytes,
    own: Sequence[EllipticCurvePrivateKey] = (NODE,),
    by: Sequence[EllipticCurvePrivateKey] = (FLEET,),
    place: PayloadPlace = PLACE,
) -> bytes:
    return open_sealed(own, [each.public_key() for each in by], place, metadata, data)


@given(st.binary(max_size=300))
def test_each_receiver_opens_it(said: bytes) -> None:
    sealed = seal([FLEET], [OTHER.public_key(), NODE.public_key()], PLACE, said, fresh())
    assert opened(*sealed) == opened(*sealed, own=[OTHER]) == said
    assert len(said) < 4 or said not in sealed[1]


SEALED = seal([FLEET], [NODE.public_key()], PLACE, b"said", fresh())


@given(st.integers(0, len(SEALED[1]) - 1), st.integers(1, 255))
def test_no_byte_of_it_can_be_changed(at: int, by: int) -> None:
    metadata, data = SEALED
    with pytest.raises(Unsealable):
        opened(metadata, data[:at] + bytes([data[at] ^ by]) + data[at + 1 :])


@given(st.integers(0, len(SEALED[1]) - 1))
def test_a_part_of_it_is_nothing(length: int) -> None:
    with pytest.raises(Unsealable):
        opened(SEALED[0], SEALED[1][:length])


@pytest.mark.parametrize(
    "otherwise",
    [
        {"own": [OTHER]},
        {"own": [FLEET]},
        {"by": [OTHER]},
        {"by": [NODE]},
        {"place": PayloadPlace("other", "fleet-node/a", "", "take_intent")},
        {"place": PayloadPlace("default", "fleet-node/b", "", "take_intent")},
        {"place": PayloadPlace("default", "fleet-node/a", "", "attend")},
    ],
)
def test_it_is_of_one_sender_one_receiver_and_one_place(otherwise: dict[str, Any]) -> None:
    assert opened(*SEALED) == b"said"
    with pytest.raises(Unsealable):
        opened(*SEALED, **otherwise)


def test_who_names_the_fleet_as_sender_without_its_key_is_found_out() -> None:
    metadata, data = seal([OTHER], [NODE.public_key()], PLACE, b"run this", fresh())
    theirs, fleets = (bytes.fromhex(public_key_id(each.public_key())) for each in (OTHER, FLEET))
    assert data.count(theirs) == 1
    with pytest.raises(Unsealable, match="altered"):
        opened(metadata, data.replace(theirs, fleets))


def test_who_trusts_one_of_several_senders_opens_it() -> None:
    """A fleet that changes its key seals with the earlier one too."""
    sealed = seal([FLEET, OTHER], [NODE.public_key()], PLACE, b"said", fresh())
    assert opened(*sealed) == opened(*sealed, by=[OTHER]) == b"said"
    with pytest.raises(Unsealable, match="somebody else"):
        opened(*sealed, by=[NODE])


def test_an_entry_of_another_sender_does_not_vouch_for_what_a_thief_has_sealed() -> None:
    """A thief with one of the fleet's keys copies the other key's entry, which wraps another content key."""
    _, true = seal([FLEET], [NODE.public_key()], PLACE, b"said", fresh())
    metadata, forged = seal([OTHER], [NODE.public_key()], PLACE, b"run this", fresh())
    head, entry = 65 + 12, 8 + 8 + 48
    both = forged[:head] + b"\x02" + true[head + 1 : head + 1 + entry] + forged[head + 1 :]
    with pytest.raises(Unsealable, match="altered"):
        opened(metadata, both)


@pytest.mark.parametrize("said", [b"", b"0" * 16])
def test_it_names_the_keys_that_open_it(said: bytes) -> None:
    """`fleet key remove` finds by these which histories need a key."""
    metadata, data = SEALED
    assert metadata["syncpod-sealed-for"].decode() == public_key_id(NODE.public_key())
    with pytest.raises(Unsealable, match="does not say for whom"):
        opened({**metadata, "syncpod-sealed-for": said}, data)


def test_without_a_receiver_nobody_opens_it() -> None:
    with pytest.raises(Unsealable, match="another key"):
        opened(*seal([FLEET], [], PLACE, b"said", fresh()))


def test_keys_follow_invitations_and_revocations(tmp_path: Path) -> None:
    fleet = open_fleet(tmp_path / "fleet", now())
    keys = FleetSealingKeys(fleet, now)
    assert not keys.known("a")
    fleet.issue("a", timedelta(hours=1), now())
    assert len(keys.receiving("a")) == 1
    fleet.issue("a", timedelta(hours=2), now())
    assert (len(keys.receiving("a")), keys.receiving("b")) == (2, [])
    fleet.revoke("a", now())
    assert (keys.receiving("a"), len(keys.known("a"))) == ([], 2)
    assert FleetSealingKeys(fleet, now).public_pem() == keys.public_pem()


@workflow.defn(name="Tell", sandboxed=False)
class Tell:
    """A workflow that sends a node a spec, and returns the answer."""

    @workflow.run
    async def run(self, node: str, spec: str) -> str:
        try:
            answer = await workflow.execute_activity(
                "take",
                spec,
                task_queue=f"fleet-node/{node}",
                start_to_close_timeout=timedelta(seconds=20),
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
        except ActivityError as error:
            return f"failed: {error.cause}"
        return answer.why if isinstance(answer, Refused) else f"answered: {answer}"


@activity.defn
async def take(spec: str) -> str:
    """Return that the spec was received, or fail with it for `fail`."""
    if spec == "fail":
        raise ValueError(SPEC)
    return f"took {spec}"


def of_fleet(fleet: Fleet) -> DataConverter:
    return FleetAccess(_keys(fleet), FleetSealingKeys(fleet, now)).converter(verifies=False)


def _keys(fleet: Fleet) -> Keys:
    return EncryptingKeys(make_signing_keys(fleet.directory))


async def told(door: Gated, fleet: DataConverter, node: DataConverter, spec: str = SPEC) -> tuple[str, bytes]:
    """Let the fleet send something to node a; return the result and the bytes of the history."""
    queue, pair = f"fleet-{uuid.uuid4()}", door.pair("a")
    there = await Client.connect(door.behind, data_converter=fleet)
    here = await door.client("a", pair, data_converter=node)
    async with (
        Worker(there, task_queue=queue, workflows=[Tell], workflow_runner=UnsandboxedWorkflowRunner()),
        Worker(here, task_queue="fleet-node/a", activities=[take], interceptors=[RefusesUnsealed()]),
    ):
        handle = await there.start_workflow(Tell.run, args=["a", spec], id=queue, task_queue=queue)
        result: str = await handle.result()
    history = await handle.fetch_history()
    return result, b"".join(event.SerializeToString() for event in history.events)


def of_node(door: Gated) -> NodeCodec:
    return node_codec(door.pair("a").key, FleetKey(FleetSealingKeys(door.fleet, now).public_pem()))


async def test_the_fleets_database_shows_no_spec(door: Gated) -> None:
    said, history = await told(door, of_fleet(door.fleet), fleet_converter(of_node(door)))
    assert said == f"answered: took {SPEC}"
    assert b"binary/sealed" in history
    assert SPEC.encode() not in history
    failed, history = await told(door, of_fleet(door.fleet), fleet_converter(of_node(door)), "fail")
    assert failed == f"failed: ValueError: {SPEC}"
    assert SPEC.encode() not in history


async def test_a_node_does_nothing_that_the_fleet_has_not_sealed(door: Gated) -> None:
    """Write access to the fleet's server without the fleet's key is not enough to command a node."""
    said, _ = await told(door, DATA_CONVERTER, fleet_converter(of_node(door)))
    assert said.startswith("failed:")
    assert "answered" not in said
    stranger = FleetCodec(_keys(door.fleet), Stranger(door.fleet, now), verifies=False)
    said, _ = await told(door, fleet_converter(stranger), fleet_converter(of_node(door)))
    assert "answered" not in said


async def test_a_node_says_in_one_line_why_it_refuses_what_it_is_asked(
    door: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests from the time when a node was away are sealed for its certificates of that time."""
    asks, answers = of_fleet(door.fleet), of_node(door)
    earlier = FleetCodec(_keys(door.fleet), Earlier(door.fleet, now), verifies=False)
    caplog.set_level(logging.WARNING)
    said, _ = await told(door, fleet_converter(earlier), fleet_converter(answers))
    assert said == "failed: Unsealed: the node refuses what it is asked: it was sealed for another key"
    (line,) = [each for each in caplog.records if each.name.startswith(("syncpod", "temporalio.activity"))]
    assert line.exc_info is None
    assert line.getMessage() == (
        "the fleet's request take is refused: it was sealed for another key "
        "(the fleet asked it for an earlier certificate of this node, and asks anew within seconds)"
    )
    assert (await told(door, asks, fleet_converter(answers)))[0] == f"answered: took {SPEC}"


def test_the_same_reason_is_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    said = ((0.0, "a"), (QUIET_SECONDS - 1, "a"), (QUIET_SECONDS - 1, "b"), (QUIET_SECONDS, "a"))
    times = iter([at for at, _ in said])
    refusals = RefusesUnsealed(lambda: next(times))
    for _, why in said:
        refusals.say("attend", why)
    assert [each.getMessage()[-1] for each in caplog.records] == ["a", "b", "a"]


async def test_a_client_reads_nothing_that_the_fleet_has_not_encrypted(door: Gated) -> None:
    """Anybody who polls the fleet's task queue can answer queries and write memos."""
    here = of_fleet(door.fleet).with_context(
        WorkflowSerializationContext(namespace="default", workflow_id="workload/a")
    )
    there = of_fleet(door.fleet).with_context(
        WorkflowSerializationContext(namespace="default", workflow_id="workload/b")
    )
    [answer] = await here.encode(["an answer"])
    assert await here.decode([answer]) == ["an answer"]
    with pytest.raises(Undecipherable, match="another workflow"):
        await there.decode([answer])
    for forged in await DATA_CONVERTER.encode(["a lie"]):
        with pytest.raises(Undecipherable, match="not encrypted, so no worker of the fleet has written it"):
            await here.decode([forged])


@pytest.mark.parametrize("named", [b"", b"x", b"\xff\xfe", b"0123456789ABCDEF", b"0" * 17])
async def test_what_can_never_be_decrypted_is_refused_and_stops_no_workflow(door: Gated, named: bytes) -> None:
    """A missing key may come later, so the task is retried; data without a key's id is refused at once."""
    context = WorkflowSerializationContext(namespace="default", workflow_id="workload/a")
    codec = FleetCodec(_keys(door.fleet), FleetSealingKeys(door.fleet, now), verifies=True).with_context(context)
    [answer] = await codec.decode([Payload(metadata={"encoding": ENCRYPTED, KEY: named}, data=b"\xff\xfe")])
    assert UNKNOWN_KEY in answer.metadata[REFUSAL].decode()
    with pytest.raises(Undecipherable, match="which the fleet does not have here"):
        await codec.decode([Payload(metadata={"encoding": ENCRYPTED, KEY: b"0" * 16}, data=b"\xff\xfe")])


class Earlier(FleetSealingKeys):
    """A fleet's keys, with another key of the node than that of its invitation."""

    def receiving(self, node: str) -> Sequence[EllipticCurvePublicKey]:
        return (OTHER.public_key(),)


class Stranger(FleetSealingKeys):
    """The keys of a stranger: the nodes' public keys, and another key as the fleet's."""

    @property
    def own(self) -> Sequence[EllipticCurvePrivateKey]:
        return (OTHER,)


async def test_the_fleet_believes_no_answer_that_the_node_has_not_sealed(door: Gated) -> None:
    """It wedges no workflow either."""
    liar = SealedByAnother([OTHER], FleetKey(FleetSealingKeys(door.fleet, now).public_pem()), of_node(door))
    said, _ = await told(door, of_fleet(door.fleet), fleet_converter(liar))
    assert said == "it was sealed by somebody else"


class SealedByAnother(NodeCodec):
    """A codec that opens messages as the node, and seals as another one."""

    def __init__(self, own: Sequence[EllipticCurvePrivateKey], fleet: Any, opens: NodeCodec, place: Any = None) -> None:
        super().__init__(own, fleet, place)
        self._opens = opens

    def with_context(self, context: Any) -> SealedByAnother:
        placed = super().with_context(context)
        return SealedByAnother(placed._own, placed._fleet, self._opens.with_context(context), placed._place)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await self._opens.decode(payloads)
