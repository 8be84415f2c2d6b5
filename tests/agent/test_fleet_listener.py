"""The process of a node's endpoint: started when it is needed, and ended completely.

Holds: The endpoint of a node lets in only the fleet's machine.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from syncpod.agent.fleet.listener import ListenerProcess
from syncpod.cli.fleet_endpoint import EndpointUnreachable, reached
from syncpod.gate.authority import Fleet, now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.fleet import FleetNodeView
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import forget_membership, keep_listening, keep_membership
from tests.agent.waiting import until, until_asked


@dataclass
class Bench:
    """A running listener of a node, and the node's fleet."""

    listener: ListenerProcess
    fleet: Fleet
    directory: Path

    def invite(self, name: str = "n1") -> None:
        """Make a new invitation with a new certificate for the node."""
        pair = self.fleet.issue(name, timedelta(hours=1), now())
        pems = self.fleet.authorities_pem()
        made = Invitation(
            self.fleet.id, name, "localhost:1", self.fleet.server_name, "default", pems, pair.certificate, pair.key,
            FleetSealingKeys(self.fleet, now).public_pem(),
        )  # fmt: skip
        keep_membership(self.directory / "node", made)

    async def is_let_in(self) -> bool:
        """Whether the fleet's machine is let in at the node's address."""
        where = self.listener.address
        view = FleetNodeView(name="n1", fleet=self.fleet.id, endpoint=where or "127.0.0.1:1")
        try:
            async with reached(str(self.directory), view):
                return True
        except EndpointUnreachable:
            return False

    def processes(self) -> list[int]:
        """The processes that serve the endpoint of this node."""
        mark = f"endpoint_process\0{self.directory / 'node'}\0".encode()
        return [int(each.parent.name) for each in Path("/proc").glob("[0-9]*/cmdline") if mark in _read(each)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    fleet = open_fleet(fleet_directory(tmp_path), now())
    (tmp_path / "node").mkdir(mode=0o700)
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    listener = ListenerProcess(tmp_path / "node", "n1", "/nowhere.sock", environ)
    running = asyncio.create_task(listener.run())
    bench = Bench(listener, fleet, tmp_path)
    yield bench
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not bench.processes()


async def test_a_node_listens_only_where_it_was_told_and_as_long_as_it_belongs_to_a_fleet(bench: Bench) -> None:
    bench.invite()
    await asyncio.sleep(0)
    assert not bench.listener.address
    keep_listening(bench.directory / "node", "127.0.0.1:0")
    await until(lambda: bool(bench.listener.address))
    assert await bench.is_let_in()
    (first,) = bench.processes()

    bench.fleet.revoke("n1", now())
    assert not await bench.is_let_in()
    bench.invite()
    await until_asked(bench.is_let_in)  # it shows the new certificate, and is the same process
    assert bench.processes() == [first]

    os.kill(first, signal.SIGKILL)
    await until(lambda: bench.processes() not in ([first], []))
    await until_asked(bench.is_let_in)

    forget_membership(bench.directory / "node")
    await until(lambda: not bench.listener.address and not bench.processes())


async def test_an_invitation_of_another_node_is_not_listened_for(bench: Bench) -> None:
    keep_listening(bench.directory / "node", "127.0.0.1:0")
    bench.invite("n2")
    assert bench.listener._wanted() is None


async def test_a_listener_that_is_cancelled_while_its_process_starts_ends_and_leaves_none(bench: Bench) -> None:
    bench.invite()
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    listener = ListenerProcess(bench.directory / "node", "n1", "/nowhere.sock", environ)
    for turns in range(12):
        keeping = asyncio.create_task(listener._keep(("127.0.0.1:0", bench.fleet.id)))
        for _ in range(turns):
            await asyncio.sleep(0)
        keeping.cancel()
        done, _ = await asyncio.wait({keeping}, timeout=30)
        assert done, f"it hangs when cancelled after {turns} turns"
    await until(lambda: not bench.processes())
