"""Slow, silent or failing clients at the gate, at the same address as honest nodes.

Holds: A client that fails or says nothing keeps no node out, not even at its own address.
"""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from syncpod.agent.fleet.link import to_gate
from syncpod.gate import authority, hello
from syncpod.gate import door as doors
from syncpod.gate.authority import Pair
from syncpod.gate.handshakes import FAILURES_BURST
from syncpod.temporal.plugin import NoServer
from syncpod.temporal.sealing import FleetKey
from tests.agent.waiting import until
from tests.gate.conftest import Gated, gated
from tests.gate.hostile_http2 import ACKNOWLEDGED, PREFACE, SETTINGS, call, connect
from tests.gate.test_node import invitation
from tests.runtimes.temporal import DevServer


def at(door: Gated) -> tuple[str, int]:
    host, _, port = door.address.rpartition(":")
    return host, int(port)


async def opened(door: Gated, count: int) -> list[asyncio.StreamWriter]:
    """Open this many connections, one after another."""
    return [(await asyncio.open_connection(*at(door)))[1] for _ in range(count)]


def close(writers: list[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.transport.abort()


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Read until the connection is closed; it may be reset if data that we sent was not read."""
    async with asyncio.timeout(30):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def lets_in(door: Gated, pair: Pair, node: str) -> bool:
    """Whether a node's own connection is let in."""
    invited = invitation(door, node, pair)
    try:
        client = await to_gate(door.fleet.directory)(invited, FleetKey(invited.fleet_key))
    except NoServer:
        return False
    return await client.service_client.check_health()


async def fail_until_refused(door: Gated, caplog: pytest.LogCaptureFixture) -> None:
    """Fail handshakes from this address until the gate refuses to begin another."""
    context = ssl.create_default_context(cadata=door.fleet.authorities_pem())
    context.check_hostname = False

    async def fail() -> None:
        try:
            reader, writer = await asyncio.open_connection(*at(door), ssl=context)
            await reader.read(1)
            writer.transport.abort()
        except OSError:
            pass

    async with asyncio.timeout(120):
        while "too many of its handshakes have failed" not in caplog.text:
            await asyncio.gather(*(fail() for _ in range(64)))


async def test_a_node_is_let_in_while_others_at_its_address_fail_without_end(
    door: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    await fail_until_refused(door, caplog)
    failed, now = door.gate._door._handshakes._failed, asyncio.get_running_loop().time
    failed.spend("127.0.0.1", now(), FAILURES_BURST)  # and they go on
    pair = door.pair("a")
    await until(lambda: "a" in door.gate._door._hellos.values())
    failed._spent["127.0.0.1"] = (10 * FAILURES_BURST, now())
    with pytest.raises(OSError):  # clients without such a hello are kept out
        await connect(door, pair)
    assert await lets_in(door, pair, "a")


async def test_a_revoked_certificate_has_no_share_of_its_own(door: Gated) -> None:
    revoked, valid = door.pair("a"), door.pair("b")
    door.fleet.revoke("a", authority.now())
    await until(lambda: set(door.gate._door._hellos.values()) == {"b"})
    assert not await lets_in(door, revoked, "a")
    assert await lets_in(door, valid, "b")


async def test_a_crowd_that_says_nothing_keeps_nobody_out(door: Gated) -> None:
    most = door.gate._door._handshakes._room.silent_of_one_address
    silent = await opened(door, most + 50)
    assert await lets_in(door, door.pair("a"), "a")
    assert len(door.gate._door._handshakes) <= most
    close(silent)


async def test_who_says_no_hello_is_disconnected_after_a_while(
    door: Gated, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hello, "HELLO_SECONDS", 0.5)
    for said in (b"", b"\x16\x03\x01\x02"):
        caplog.clear()
        reader, writer = await asyncio.open_connection(*at(door))
        writer.write(said)
        assert await rest_of(reader) == b""
        writer.transport.abort()
    assert not len(door.gate._door._handshakes)


async def test_a_node_that_makes_no_call_is_disconnected_and_one_that_has_is_not(
    door: Gated, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(doors, "FIRST_SECONDS", 0.5)
    spoken, writer = await connect(door, door.pair("a"))
    writer.write(PREFACE + SETTINGS + ACKNOWLEDGED + call(1))
    for said in (b"", PREFACE, PREFACE + SETTINGS + ACKNOWLEDGED):
        reader, silent = await connect(door, door.pair("b"))
        silent.write(said)
        await rest_of(reader)
        assert "node b, 'connection closed': it made no call within 0.5 seconds" in caplog.text
        silent.transport.abort()
    assert "node a, 'connection closed'" not in caplog.text
    assert not spoken.at_eof()
    writer.transport.abort()


async def test_one_address_has_so_many_connections_and_no_more(
    tmp_path: Path, temporal_server: DevServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(doors, "ROOM", replace(doors.ROOM, of_one_address=4))
    async with gated(tmp_path / "fleet", temporal_server.address) as door:
        kept = [await connect(door, door.pair("a")) for _ in range(4)]
        with pytest.raises(OSError):
            await connect(door, door.pair("b"))
        assert "one address may have at most 4 connections at once" in caplog.text
        close([writer for _, writer in kept])
        await until(lambda: not door.gate._door._handshakes._open)
        assert await lets_in(door, door.pair("b"), "b")


@asynccontextmanager
async def older_gate(directory: Path, behind: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gated]:
    """A gate whose certificate is valid only for its own name."""

    def issue_gate(fleet: authority.Fleet, names: list[str], now: datetime) -> Pair:
        hosts = [authority._host(name) for name in (fleet.server_name, *names)]
        usages = (ExtendedKeyUsageOID.SERVER_AUTH,)
        name = authority._common_name("syncpod gate")
        return fleet._make(fleet.authorities()[0], name, hosts, usages, now, authority.GATE_LIFE)[1]

    with monkeypatch.context() as patched:
        patched.setattr(authority.Fleet, "issue_gate", issue_gate)
        async with gated(directory, behind) as door:
            yield door


async def test_a_node_gets_in_by_a_gate_of_an_older_version_too(
    tmp_path: Path, temporal_server: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with older_gate(tmp_path / "fleet", temporal_server.address, monkeypatch) as door:
        assert await lets_in(door, door.pair("a"), "a")


def test_the_room_leaves_descriptors_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    for most, expected in ((1024, 128), (2**20, doors.ROOM.of_one_address), (resource.RLIM_INFINITY, 4096)):
        monkeypatch.setattr("syncpod.gate.handshakes.resource.getrlimit", lambda _, most=most: (most, most))
        assert doors.ROOM.within_descriptors().of_one_address == expected
