"""An invitation is bound to the first machine that uses it."""

from __future__ import annotations

import stat
from pathlib import Path

import grpc
import pytest

from syncpod.agent.fleet.link import to_gate
from syncpod.gate.gate import DIRECTORY
from syncpod.gate.machines import Machines, refused_from
from syncpod.messages.fleet import MACHINE_HEADER, used_elsewhere
from syncpod.settings.membership import MACHINE_FILE_NAME, forget_membership, keep_membership, machine_proof
from syncpod.temporal.plugin import NoServer
from syncpod.temporal.sealing import FleetKey
from tests.cli.conftest import program
from tests.gate.conftest import SERVICE, Gated, gated, served
from tests.gate.test_node import invitation
from tests.runtimes.temporal import DevServer


async def refusal(door: Gated, home: Path, node: str, pair: object) -> str:
    """The reason why the gate refuses the node with this state directory; "" if it does not."""
    invited = invitation(door, node, pair)  # type: ignore[arg-type]
    try:
        client = await to_gate(home)(invited, FleetKey(invited.fleet_key))
    except NoServer as error:
        return str(error)
    assert await client.service_client.check_health()
    return ""


async def test_a_second_machine_with_an_invitation_is_refused_and_the_fleet_says_so(
    tmp_path: Path, temporal_server: DevServer
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    async with gated(tmp_path / "state" / "fleet", temporal_server.address) as door:
        pair = door.pair("b")
        assert await refusal(door, first, "b", pair) == ""
        assert used_elsewhere("b") in await refusal(door, second, "b", pair)
        forget_membership(first)  # it leaves, and joins again
        keep_membership(first, invitation(door, "b", pair))
        assert await refusal(door, first, "b", pair) == ""
        assert await refusal(door, second, "b", door.pair("b")) == "", "it is invited itself"
    async with served(door.fleet, temporal_server.address) as again:
        assert used_elsewhere("b") in await refusal(again, second, "b", pair), "a restart forgets nothing"
        assert await refusal(again, first, "b", pair) == ""
    (serial, _) = [each.serial for each in sorted(door.fleet.issued(), key=lambda each: each.issued)]
    seen = [each.serial for each in door.fleet.issued() if refused_from(door.fleet.directory / DIRECTORY, each.serial)]
    assert len(seen) == 1
    said = program("fleet", "certificates", environ={"SYNCPOD_STATE_DIR": str(tmp_path / "state")})
    assert f"certificate {seen[0]} of node b was presented by a second machine, at 127.0.0.1" in said.err
    assert said.err.count("Note:") == 1 and serial


async def test_who_shows_no_proof_is_let_in_until_somebody_has_shown_one(door: Gated, tmp_path: Path) -> None:
    """A node of an older version shows none."""
    pair = door.pair("b")
    channel = door.channel(pair)
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{SERVICE}GetSystemInfo")
    assert await call(b"")
    assert await refusal(door, tmp_path, "b", pair) == ""
    for shown in ((), ((MACHINE_HEADER, ""),), ((MACHINE_HEADER, "0" * 64),), ((MACHINE_HEADER, "../../x"),)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"", metadata=shown)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    await channel.close()


def test_a_proof_that_is_none_is_not_kept(tmp_path: Path) -> None:
    machines = Machines(tmp_path)
    for proof in ("", "x", "F" * 64, "0" * 65):
        assert machines.lets_in("ab", proof)
    assert machines.lets_in("ab", "0" * 64)
    assert not machines.lets_in("ab", "1" * 64)
    assert not Machines(tmp_path).lets_in("ab", "")
    assert Machines(tmp_path).lets_in("ab", "0" * 64)
    assert [each.name for each in (tmp_path / "machines").iterdir()] == ["ab"]


@pytest.mark.parametrize("damage", [b"\xb3" + b"0" * 63, b""])
def test_a_damaged_record_lets_nobody_in_and_stops_nothing(tmp_path: Path, damage: bytes) -> None:
    assert Machines(tmp_path).lets_in("ab", "0" * 64)
    (tmp_path / "machines" / "ab").write_bytes(damage)
    machines = Machines(tmp_path)
    assert not machines.lets_in("ab", "0" * 64), "a new invitation does"
    assert not machines.knows("ab", "0" * 64)
    assert machines.lets_in("cd", "0" * 64)


def test_a_machine_has_another_proof_for_each_invitation_and_keeps_its_secret(door: Gated, tmp_path: Path) -> None:
    one, other = (invitation(door, "b", door.pair("b")) for _ in range(2))
    proofs = [machine_proof(tmp_path, each) for each in (one, other, one)]
    assert proofs[0] == proofs[2] != proofs[1]
    assert stat.S_IMODE((tmp_path / MACHINE_FILE_NAME).stat().st_mode) == 0o600
    assert (tmp_path / MACHINE_FILE_NAME).read_text().strip() not in proofs
    (tmp_path / MACHINE_FILE_NAME).write_bytes(b"0" * 32 + b"\xb3" + b"0" * 31 + b"\n")
    assert machine_proof(tmp_path, one) not in proofs, "the gate does not let it in, and says what to do"
