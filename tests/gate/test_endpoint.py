"""A node's endpoint: its streams, and who is let in.

Holds: The endpoint of a node lets in only the fleet's machine.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from syncpod.agent import own_commands
from syncpod.agent.fleet import endpoint as endpoints
from syncpod.agent.fleet.endpoint import Endpoint
from syncpod.cli.failure import Failure
from syncpod.cli.fleet_endpoint import EndpointUnreachable, reached
from syncpod.cli.streams.command_streams import Output
from syncpod.gate.authority import Fleet, Pair, now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.gate.handshakes import FAILURES_BURST
from syncpod.messages.endpoint import Ended, Forward
from syncpod.messages.fleet import FleetNodeView
from syncpod.settings.invitation import Invitation
from syncpod.streaming.multiplex import WINDOW_BYTES, Multiplex
from tests.agent.waiting import until, until_asked


@dataclass
class Said:
    """The output and exit code of a command."""

    out: bytes = b""
    err: bytes = b""

    async def write(self, which: Output, data: bytes) -> None:
        if which is Output.STDERR:
            self.err += data
        else:
            self.out += data


@dataclass
class Listening:
    """A listening node and its fleet."""

    fleet: Fleet
    endpoint: Endpoint
    state_dir: str
    view: FleetNodeView

    async def run(self, *words: str, said: Said | None = None, **more: Any) -> tuple[int, Said]:
        """Let the node run ``sh -c`` with the second argument."""
        said = said or Said()
        async with reached(self.state_dir, self.view) as way:
            return await way.run(words, write=said.write, **more), said

    def renewed(self) -> Invitation:
        """Make another invitation for the node."""
        return invitation(self.fleet, self.view.name, self.fleet.issue(self.view.name, timedelta(hours=1), now()))


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Listening]:
    """A node whose commands are scripts of a shell, with a terminal as `syncpod.cli.remote_command` takes it."""
    script = (
        "import fcntl, os, sys, termios\n"
        "if os.isatty(0): fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "os.execvp('sh', ['sh', '-c', sys.argv[2]])\n"
    )
    monkeypatch.setattr(own_commands, "_program", lambda: (sys.executable, "-c", script))
    async with listening(tmp_path, "n1", "n1") as node:
        yield node


@asynccontextmanager
async def listening(directory: Path, name: str, certified: str) -> AsyncIterator[Listening]:
    """Listen as node `name`, with the certificate of `certified`."""
    fleet = open_fleet(fleet_directory(directory), now())
    pair = fleet.issue(certified, timedelta(hours=1), now())

    async def carry(link: Multiplex, asked: Forward) -> Ended:
        return Ended(refused=f"no port {asked.port}")

    endpoint = Endpoint(invitation(fleet, certified, pair), os.environ, carry)
    await endpoint.start("127.0.0.1", 0)
    try:
        view = FleetNodeView(name=name, fleet=fleet.id, presence="Ready", endpoint=f"127.0.0.1:{endpoint.port}")
        yield Listening(fleet, endpoint, str(directory), view)
    finally:
        await endpoint.close()


def invitation(fleet: Fleet, node: str, pair: Pair) -> Invitation:
    return Invitation(
        fleet=fleet.id,
        node=node,
        address="localhost:1",
        server_name=fleet.server_name,
        namespace="default",
        authorities=fleet.authorities_pem(),
        certificate=pair.certificate,
        key=pair.key,
        fleet_key="",
    )


async def given(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield bytes(100_000)


async def test_streams_and_exit_code_pass(node: Listening) -> None:
    big = os.urandom(3_000_000)
    code, said = await node.run("exec", "cat; echo oh >&2; exit 7", stdin=given(big, b"end"))
    assert (code, said.out, said.err) == (7, big + b"end", b"oh\n")
    assert (await node.run("logs", "cat; echo none"))[1].out == b"none\n"
    assert (await node.run("exec", "kill -9 $$"))[0] == 137


async def test_a_terminal_has_our_size_and_follows_it(node: Listening) -> None:
    seen = asyncio.Event()

    async def sizes() -> AsyncIterator[tuple[int, int]]:
        yield 91, 23
        await seen.wait()
        yield 101, 33
        await asyncio.Event().wait()

    async def typed() -> AsyncIterator[bytes]:
        yield b"typed\n"
        await asyncio.Event().wait()

    class Seen(Said):
        async def write(self, which: Output, data: bytes) -> None:
            await super().write(which, data)
            if b"got typed 23 91 xterm-color" in self.out:
                seen.set()

    # The shell gets the change of size, which it would not without a controlling terminal.
    script = "trap 'stty size; exit 3' WINCH; read a; echo got $a $(stty size) $TERM; while :; do sleep 0.05; done"
    code, said = await node.run("exec", script, said=Seen(), stdin=typed(), sizes=sizes(), term="xterm-color")
    assert code == 3
    assert b"33 101" in said.out


async def test_the_last_of_a_terminals_output_is_not_lost(node: Listening) -> None:
    async def sizes() -> AsyncIterator[tuple[int, int]]:
        yield 80, 24
        await asyncio.Event().wait()

    code, said = await node.run("exec", "seq 1 50000; echo last", sizes=sizes())
    assert code == 0
    assert said.out.endswith(b"50000\r\nlast\r\n")
    assert said.out.count(b"\n") >= 50001


@pytest.mark.parametrize("script", ["sleep 1000", "seq 1 9999999; sleep 1000"], ids=["silent", "talking"])
async def test_a_command_ends_with_its_connection(node: Listening, tmp_path: Path, script: str) -> None:
    """Also one that does not read its input, and one whose output nobody takes."""

    class Stuck(Said):
        async def write(self, which: Output, data: bytes) -> None:
            await asyncio.Event().wait()

    mark = tmp_path / "mark"
    running = asyncio.create_task(node.run("exec", f"echo $$ > {mark}; {script}", said=Stuck(), stdin=endless()))
    await until(lambda: mark.exists() and mark.read_text() != "")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await until(lambda: not Path("/proc", mark.read_text().strip()).exists())


async def test_who_does_not_read_holds_up_nobody_and_loses_nothing(node: Listening) -> None:
    reads = asyncio.Event()

    class Slow(Said):
        async def write(self, which: Output, data: bytes) -> None:
            await reads.wait()
            await super().write(which, data)

    slow = Slow()
    running = asyncio.create_task(node.run("logs", f"head -c {4 * WINDOW_BYTES} /dev/zero; echo end", said=slow))
    assert (await node.run("exec", "echo quick"))[1].out == b"quick\n"
    assert not running.done()
    reads.set()
    assert (await running)[0] == 0
    assert slow.out == bytes(4 * WINDOW_BYTES) + b"end\n"


async def test_what_is_no_command_for_a_node_is_refused(node: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncpod.cli.fleet_endpoint.why_not_direct", lambda words: "")  # as of another version
    for words in (("down", "--purge"), ("exec", "a\0b"), ("exec", "x" * 100_000), ()):
        with pytest.raises(Failure, match=r"not down|NUL|at most 64 KiB|not nothing"):
            await node.run(*words)


async def test_so_many_commands_and_no_more(node: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "COMMANDS", 1)
    first = Said()
    running = asyncio.create_task(node.run("exec", "echo runs; cat", said=first, stdin=endless()))
    await until(lambda: bool(first.out))
    with pytest.raises(Failure, match="runs 1 commands over its endpoint"):
        await node.run("exec", "echo two")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    async def two() -> bool:
        try:
            return (await node.run("exec", "echo two"))[1].out == b"two\n"
        except Failure:
            return False

    await until_asked(two)


async def greeting(node: Listening, directory: Path, pair: Pair | None) -> bytes:
    """The endpoint's first answer to a client with this certificate that requests a command at once."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if pair is not None:
        path = directory / "stranger.pem"
        path.write_text(pair.certificate + pair.key)
        context.load_cert_chain(path)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", node.endpoint.port, ssl=context)
    except OSError:
        return b""
    try:
        begin = b'{"words": ["exec", "echo in"]}'
        writer.write(bytes([8]) + len(begin).to_bytes(4) + begin)
        return await reader.read(1000)
    except OSError:
        return b""
    finally:
        writer.transport.abort()


async def test_nobody_but_who_commands_the_fleet_is_let_in(node: Listening, tmp_path: Path) -> None:
    other = open_fleet(tmp_path / "other", now())
    own = Fleet(node.fleet.directory, other.id)  # the right authority, and the name of another fleet
    strangers = {
        "nobody": None,
        "another fleet's commander": other.issue_commander(now()),
        "a commander of another name": own.issue_commander(now()),
        "another node": node.fleet.issue("n2", timedelta(hours=1), now()),
        "the node itself": node.fleet.issue("n1", timedelta(hours=1), now()),
        "the gate": node.fleet.issue_gate(["localhost"], now()),
        "an old commander": node.fleet.issue_commander(now() - timedelta(hours=1)),
    }
    assert b"n1" in await greeting(node, tmp_path, node.fleet.issue_commander(now()))
    for who, pair in strangers.items():
        assert await greeting(node, tmp_path, pair) == b"", f"{who} was let in"


async def test_a_node_that_is_not_the_one_or_was_revoked_is_told_nothing(node: Listening, tmp_path: Path) -> None:
    async with listening(tmp_path, "n2", "thief") as false:
        with pytest.raises(EndpointUnreachable, match="is not node n2"):
            await false.run("exec", "cat", stdin=given(b"secret"))
    other = open_fleet(tmp_path / "other", now())
    node.endpoint.show(invitation(other, "n1", other.issue("n1", timedelta(hours=1), now())))
    with pytest.raises(EndpointUnreachable, match=r"self-signed|unable to get local issuer|verify"):
        await node.run("exec", "cat", stdin=given(b"secret"))
    node.endpoint.show(node.renewed())
    assert (await node.run("exec", "echo well"))[1].out == b"well\n"
    node.fleet.revoke("n1", now())
    with pytest.raises(EndpointUnreachable, match="certificate revoked"):
        await node.run("exec", "cat", stdin=given(b"secret"))


async def test_a_nodes_certificate_does_not_pass_for_the_gates(node: Listening) -> None:
    """A certificate of a node serves its endpoint too. Other nodes must not take a stolen one for their gate."""
    context = ssl.create_default_context(cadata=node.fleet.authorities_pem())
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        await asyncio.open_connection(
            "127.0.0.1", node.endpoint.port, ssl=context, server_hostname=node.fleet.server_name
        )


async def test_a_certificate_is_changed_under_what_runs(node: Listening) -> None:
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def typed() -> AsyncIterator[bytes]:
        while data := await pieces.get():
            yield data

    said = Said()
    running = asyncio.create_task(node.run("exec", "cat", said=said, stdin=typed()))
    pieces.put_nowait(b"before ")
    await until(lambda: said.out == b"before ")
    first = node.fleet.issued()[0].serial
    node.fleet.rotate(now())
    node.endpoint.show(node.renewed())
    node.fleet.revoke("n1", now(), first)
    assert (await node.run("exec", "echo new"))[1].out == b"new\n"
    pieces.put_nowait(b"after")
    pieces.put_nowait(b"")
    assert (await running)[0] == 0
    assert said.out == b"before after"


async def test_who_says_nothing_keeps_nobody_out(node: Listening) -> None:
    silent = [await asyncio.open_connection("127.0.0.1", node.endpoint.port) for _ in range(100)]

    async def enters() -> bool:
        try:
            return (await node.run("exec", "echo in"))[1].out == b"in\n"
        except EndpointUnreachable:
            return False

    await until_asked(enters)
    assert len(node.endpoint._handshakes) <= endpoints.ROOM.silent_of_one_address
    for _, writer in silent:
        writer.close()


async def test_the_fleet_is_let_in_while_others_at_its_address_fail_without_end(
    node: Listening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, loop = node.endpoint._handshakes._failed, asyncio.get_running_loop()
    failed.spend("127.0.0.1", loop.time(), FAILURES_BURST)
    monkeypatch.setattr(failed, "_per_second", 0)
    assert await greeting(node, tmp_path, node.fleet.issue_commander(now())) == b""  # without a hello
    assert (await node.run("exec", "echo in"))[1].out == b"in\n"
    [first] = [each.serial for each in node.fleet.issued() if each.node == "n1"]
    node.endpoint.show(node.renewed())
    node.fleet.revoke("n1", now(), first)
    assert (await node.run("exec", "echo again"))[1].out == b"again\n"


async def test_what_makes_no_sense_ends_the_connection(node: Listening) -> None:
    async def asked(*frames: tuple[int, bytes]) -> None:
        async with reached(node.state_dir, node.view) as way:
            for kind, data in frames:
                way._link._writer.write(bytes([kind]) + len(data).to_bytes(4) + data)
            with pytest.raises(Failure, match=r"broke|cannot be read"):
                await way.run(["exec", "cat"], write=Said().write)

    await asked((0, bytes(200_000)), (0, bytes(200_000)), (0, bytes(200_000)))  # more than its window
    await asked(*[(8, b"x")] * 400)
    async with reached(node.state_dir, node.view) as way:
        way._link._writer.write(b"\x08" + (2**31).to_bytes(4))
        await until(lambda: way._link.is_over)


async def test_the_fleets_machine_needs_the_authority_of_the_nodes_fleet(node: Listening, tmp_path: Path) -> None:
    elsewhere = Listening(node.fleet, node.endpoint, str(tmp_path / "elsewhere"), node.view)
    with pytest.raises(EndpointUnreachable, match="another fleet than node n1"):
        await elsewhere.run("exec", "echo no")
    false = node.view.model_copy(update={"endpoint": "http://evil/?x"})
    with pytest.raises(EndpointUnreachable, match="which is no address"):
        await Listening(node.fleet, node.endpoint, node.state_dir, false).run("exec", "echo no")


async def test_all_ends_with_the_endpoint(node: Listening, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    running = asyncio.create_task(node.run("exec", f"echo $$ > {mark}; sleep 1000"))
    await until(lambda: mark.exists() and mark.read_text() != "")
    await node.endpoint.close()
    with pytest.raises(Failure, match="the connection to node n1 broke"):
        await running
    assert not os.path.exists(f"/proc/{mark.read_text().strip()}")  # noqa: ASYNC240, PTH110
