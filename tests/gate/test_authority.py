"""The fleet's certificates: owners, expiry and revocation, and a change of their authority under a running gate.

Holds: Revoking, expiry and retiring take effect at once, also on open connections.
"""

from __future__ import annotations

import asyncio
import stat
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from temporalio.api.workflowservice.v1 import GetSystemInfoRequest

from syncpod.gate.authority import Fleet, IssuedToNode, Pair, now, open_fleet
from syncpod.gate.tokens import TaskTokens, task_tokens
from syncpod.settings.values import SettingsInvalid
from tests.gate.conftest import SERVICE, Gated

HOUR = timedelta(hours=1)


def test_a_fleet_is_the_same_when_it_is_opened_again(fleet: Fleet) -> None:
    fleet.issue("n1", HOUR, now())
    again = open_fleet(fleet.directory, now())
    assert (again.id, again.authorities_pem(), again.issued()) == (fleet.id, fleet.authorities_pem(), fleet.issued())


def test_nobody_else_reads_what_is_in_it(fleet: Fleet) -> None:
    fleet.issue("n1", HOUR, now())
    for path in (fleet.directory, *fleet.directory.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir(mode=0o777)
    (tmp_path / "fleet").chmod(0o777)
    with pytest.raises(SettingsInvalid, match="must belong to this user alone"):
        open_fleet(tmp_path / "fleet", now())


def test_an_authority_whose_making_was_cut_off_is_none(fleet: Fleet) -> None:
    (fleet.directory / "authorities" / "2.key").write_text("half")
    assert fleet.authorities() == [1]
    assert fleet.rotate(now()) == 2
    fleet.issue("n1", HOUR, now())


def counted(fleet: Fleet) -> list[tuple[str, int, bool]]:
    return [(each.node, each.authority, each.revoked) for each in fleet.issued()]


def test_revoking_is_of_one_node_and_for_good(fleet: Fleet) -> None:
    for node in ("n1", "n2", "n1"):
        fleet.issue(node, HOUR, now())
    fleet.rotate(now())
    fleet.issue("n1", HOUR, now())
    assert len(fleet.revoke("n1", now())) == 3
    assert fleet.revoke("n1", now()) == []
    fleet.issue("n1", HOUR, now())
    assert sorted(counted(fleet)) == [
        ("n1", 1, True), ("n1", 1, True), ("n1", 2, False), ("n1", 2, True), ("n2", 1, False),
    ]  # fmt: skip


def test_one_certificate_of_a_node_is_revoked(fleet: Fleet) -> None:
    fleet.issue("n1", HOUR, now())
    fleet.issue("n1", 2 * HOUR, now())
    first: IssuedToNode = fleet.issued()[0]
    assert fleet.revoke("n1", now(), first.serial) == [first.serial]
    assert counted(fleet) == [("n1", 1, True), ("n1", 1, False)]


async def test_an_authority_changes_under_a_node(door: Gated) -> None:
    """Rotated, the node invited again, the earlier one retired: a node with the new invitation works throughout."""
    first = door.pair("a")
    roots = door.fleet.authorities_pem()
    assert await answered(door, first, roots)
    door.fleet.rotate(now())
    second, both = door.pair("a"), door.fleet.authorities_pem()
    await until_answered(door, second, both)
    assert await answered(door, first, roots), "the earlier invitation"
    assert door.fleet.retire() == 1
    await until_answered(door, second, both)
    assert not await answered(door, first, both)
    assert door.fleet.retire() is None
    assert sorted(counted(door.fleet)) == [("a", 0, True), ("a", 2, False)]


async def answered(door: Gated, pair: Pair, roots: str) -> bool:
    channel = door.channel(pair, roots=roots)
    try:
        called: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(SERVICE + "GetSystemInfo")
        await called(GetSystemInfoRequest().SerializeToString(), timeout=5)
    except grpc.aio.AioRpcError:
        return False
    finally:
        await channel.close()
    return True


async def until_answered(door: Gated, pair: Pair, roots: str) -> None:
    """Wait until the gate has read the fleet's files again."""
    async with asyncio.timeout(60):
        while not await answered(door, pair, roots) or door.gate._door._seen != door.fleet.changed():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def test_a_token_is_one_nodes() -> None:
    tokens = TaskTokens(bytes(32))
    bound = tokens.bind("a", b"token")
    assert tokens.unbind("a", bound) == b"token"
    assert tokens.unbind("b", bound) is None
    assert TaskTokens(b"x" * 32).unbind("a", bound) is None
    assert all(tokens.unbind("a", bound[:length]) is None for length in range(len(bound)))
    assert tokens.unbind("a\0t", tokens.bind("a", b"t\0oken")) is None


def test_the_key_of_tokens_is_kept(tmp_path: Path) -> None:
    bound = task_tokens(tmp_path).bind("a", b"token")
    assert task_tokens(tmp_path).unbind("a", bound) == b"token"
    (tmp_path / "token.key").write_text("no key")
    with pytest.raises(SettingsInvalid, match="is not a key"):
        task_tokens(tmp_path)
