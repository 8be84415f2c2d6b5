"""Remote commands on a real node with real processes, behind its fleet's gate.

Holds: A command that changes something never runs twice on a node.
Holds: The endpoint of a node lets in only the fleet's machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from syncpod.settings.membership import keep_listening, keep_membership
from tests.agent.waiting import until
from tests.cli.terminals import Terminal, forwarding, start
from tests.e2e.test_fleet import FleetOfOne, Node, fleet_of_one, new_node, words
from tests.runtimes.images import BUSYBOX
from tests.runtimes.ports import free_port
from tests.runtimes.temporal import DevServer
from tests.worker.node_process import ROOT

SECRET = "a-line-that-nobody-else-reads"
pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass
class Joined:
    """A node of a fleet, and the fleet's answers about it."""

    node: Node
    fleet: FleetOfOne

    async def runs(self, name: str, script: str) -> None:
        """Let the node run a pod with a script."""
        containers = [{"name": "main", "image": BUSYBOX, "command": ["sh", "-c", script]}]
        spec = {"nodeName": self.node.name, "terminationGracePeriodSeconds": 0, "containers": containers}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        await self.fleet.say("apply", "-f", "-", stdin=json.dumps(document))
        await self.fleet.until(self.node.name, lambda view: words(view).get(name) == "Running")

    def remote_commands(self) -> list[str]:
        """The processes that the node is running for its fleet."""
        assert self.node.worker is not None
        mark = f"syncpod.cli.remote_command\0{self.node.worker.pid}\0".encode()
        return [each.parent.name for each in Path("/proc").glob("[0-9]*/cmdline") if mark in _read(each)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def joined(temporal_server: DevServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Joined]:
    """A node with real processes, in a fleet of its own."""
    directory = tmp_path_factory.mktemp("errands")
    async with fleet_of_one(directory) as fleet, new_node(temporal_server, directory) as node:
        await node.serve()
        invitation = fleet.invitation(node.name)
        await fleet.expect(node.name, grace=50)
        keep_membership(node.state_dir, invitation)
        await fleet.until(node.name, lambda view: view.presence == "Ready")
        yield Joined(node, fleet)


async def test_what_a_node_has_is_read_and_reached_from_its_fleet(joined: Joined) -> None:
    fleet, where = joined.fleet, joined.node.name
    name = f"web-{where}"
    await joined.runs(name, f"echo {SECRET}; seq 1 60000; sleep 3600")

    whole = await fleet.say("logs", name)
    assert whole.out.splitlines() == [SECRET, *map(str, range(1, 60001))]
    assert (await fleet.say("logs", f"pod/{name}", "main", "--tail", "2")).out == "59999\n60000\n"
    assert "previous terminated container" in (await fleet.say("logs", name, "-p", code=1)).err

    ran = await fleet.say("exec", name, "--", "sh", "-c", f"echo {SECRET}; echo oh >&2; exit 7", code=7)
    assert (ran.out, ran.err) == (f"{SECRET}\n", "oh\n")
    given = "".join(f"{number} {SECRET}\n" for number in range(20_000))
    counted = await fleet.say("exec", "-i", name, "--", "sha256sum", stdin=given)
    assert counted.out.split()[0] == hashlib.sha256(given.encode()).hexdigest()

    assert "Running" in (await fleet.say("explain", name)).out
    described = await fleet.say("describe", "pod", name)
    assert re.search(rf"^Node: +{where}", described.out, re.MULTILINE), described.out
    measured = (await fleet.say("top", "pods", "--no-headers")).out.split()
    assert (measured[0], measured[-1]) == (name, where)
    assert (await fleet.say("top", "nodes", "--no-headers")).out.split()[0] == where
    missing = await fleet.say("top", "pods", "nosuch", code=1)
    assert (missing.out, missing.err) == ("", 'syncpod: pods "nosuch" not found in the fleet\n')

    await fleet.say("delete", name)
    gone = await fleet.say("explain", name)
    assert f"from the journal of node {where}" in gone.err
    assert name in gone.out
    assert "nor in the journal of the one node that was asked" in (await fleet.say("explain", "nobody", code=1)).err

    assert isinstance(fleet.server, DevServer)
    kept = b"".join(each.read_bytes() for each in fleet.server.directory.glob("temporal.db*"))
    assert b"FleetErrand" in kept
    assert SECRET.encode() not in kept, "the fleet's database shows a log, an input, or an exec's words"


async def test_a_directory_is_copied_both_ways(joined: Joined, tmp_path: Path) -> None:
    name, source, back = f"files-{joined.node.name}", tmp_path / "source", tmp_path / "back"
    await joined.runs(name, "sleep 3600")
    source.mkdir()
    big = os.urandom(700_000)
    (source / "big").write_bytes(big)
    (source / "small").write_text("small")
    await joined.fleet.say("cp", str(source), f"{name}:/tmp/")
    await joined.fleet.say("cp", f"{name}:/tmp/source", str(back))
    assert {each.name: each.read_bytes() for each in back.iterdir()} == {"big": big, "small": b"small"}
    await joined.fleet.say("delete", name)


async def test_a_followed_log_ends_on_the_node_when_its_reader_leaves(joined: Joined) -> None:
    name = f"slow-{joined.node.name}"
    await joined.runs(name, "echo begun; sleep 3600")
    follower = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "syncpod.cli.main", "--fleet", "logs", "-f", name),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **joined.fleet.environ, "TEMPORAL_CONFIG_FILE": os.devnull},
        cwd=ROOT,
    )
    assert follower.stdout is not None
    assert await follower.stdout.readline() == b"begun\n"
    assert joined.remote_commands()
    follower.send_signal(signal.SIGINT)
    assert await follower.wait() == 130
    await until(lambda: not joined.remote_commands(), patience=60)
    await joined.fleet.say("delete", name)


async def test_streams_of_a_node_that_listens(joined: Joined) -> None:
    """A terminal, output as it comes, ports, and an end of all that with the worker, which is said within seconds."""
    fleet, where, port = joined.fleet, joined.node.name, free_port()
    name, environ = f"near-{where}", joined.fleet.environ
    keep_listening(joined.node.state_dir, "127.0.0.1:0")
    serves = f"mkdir /tmp/w; echo well >/tmp/w/index.html; busybox httpd -p {port} -h /tmp/w"
    await joined.runs(name, f"{serves}; while :; do echo again; sleep 0.1; done")
    await fleet.until(where, lambda view: view.endpoint)

    async with forwarding(environ, name, f":{port}", program=("fleet", "port-forward")) as (_, (here,)):
        fetched = urllib.request.Request(f"http://127.0.0.1:{here}/index.html")
        assert await asyncio.to_thread(lambda: urllib.request.urlopen(fetched).read()) == b"well\n"
    attached = await start(environ, "fleet", "attach", name)
    assert attached.stdout is not None
    assert await attached.stdout.readline() == b"again\n"
    attached.send_signal(signal.SIGINT)
    assert await attached.wait() == 130

    shell = await asyncio.to_thread(Terminal, environ, "fleet", "exec", "-it", name, "--", "sh")
    await asyncio.to_thread(shell.until, b"# ", b"$ ")
    shell.resize(111, 33)
    shell.type(b"while ! stty size | grep '33 111'; do sleep 0.1; done\r")
    await asyncio.to_thread(shell.until, b"\n33 111")
    joined.node.kill()  # for good: this is the last test of the node
    await asyncio.to_thread(shell.until, b"broke")
    assert await asyncio.to_thread(shell.ended) == 1
    away = await fleet.say("logs", name, code=1)
    assert f"node {where} does not answer: it has taken no request for 10 s" in away.err
    assert f"on that machine `syncpod logs {name}` reaches them. `syncpod fleet explain pod/" in away.err
