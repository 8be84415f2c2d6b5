"""A complete node in a fleet: its worker between its own Temporal server and the fleet's gate, with simulated pods.

Holds: A fleet ends no pod of a node whose list it does not know.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig
from temporalio.service import RPCError, RPCStatusCode

from syncpod.fleet_client import access_to, connect_to_fleet
from syncpod.gate.authority import Fleet, now, open_fleet
from syncpod.gate.gate import Gate, TemporalFrontend, fleet_directory
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.fleet import FLEET_NODE_WORKFLOW, FLEET_QUEUE, FleetNodeView, fleet_node_id
from syncpod.messages.identity import node_task_queue, pod_workflow_id
from syncpod.messages.node import node_workflow_id
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import keep_membership
from syncpod.signing.keys import make_signing_keys
from syncpod.temporal.plugin import DATA_CONVERTER
from tests.agent.waiting import pauses
from tests.cli.conftest import Result, program
from tests.e2e.engine import PATIENCE
from tests.fork_server import start_worker
from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.worker.node_process import ROOT, NodeProcess


class Addressed(Protocol):
    """A Temporal server, or a load balancer in front of several."""

    @property
    def address(self) -> str: ...


@dataclass
class FleetOfOne:
    """A fleet on a server of its own, with the commands of its users. A test can cut the connection to it."""

    authority: Fleet
    server: Addressed
    client: Client
    environ: dict[str, str]
    log: Path
    """The log of its worker."""
    gate: Gate | None = None
    port: int = 0

    async def open(self) -> None:
        """Start the gate, always at the same port."""
        keys = make_signing_keys(self.authority.directory)
        self.gate = Gate(self.authority, keys, TemporalFrontend(self.server.address, "default"), ["localhost"])
        self.port = await self.gate.start("127.0.0.1", self.port)

    async def cut(self) -> None:
        """Close the gate, which cuts off all nodes, even in the middle of a request."""
        if self.gate is not None:
            await self.gate.close()
        self.gate = None

    def invitation(self, node: str) -> Invitation:
        pair = self.authority.issue(node, timedelta(hours=1), now())
        return Invitation(
            fleet=self.authority.id,
            node=node,
            address=f"127.0.0.1:{self.port}",
            server_name=self.authority.server_name,
            namespace="default",
            authorities=self.authority.authorities_pem(),
            certificate=pair.certificate,
            key=pair.key,
            fleet_key=FleetSealingKeys(self.authority, now).public_pem(),
        )

    async def say(self, *words: str, code: int = 0, stdin: str = "") -> Result:
        """Run ``syncpod fleet``."""
        done = await self.tries(*words, stdin=stdin)
        assert done.code == code, done
        return done

    async def tries(self, *words: str, stdin: str = "") -> Result:
        """Run ``syncpod fleet``; return the result, even if it fails."""
        return await asyncio.to_thread(program, "fleet", *words, environ=self.environ, stdin=stdin)

    async def lists(self, *words: str) -> list[list[str]]:
        """The cells of ``syncpod fleet get``, in its order."""
        done = await self.say("get", *words, "--no-headers")
        return [re.split(r" {3,}", line) for line in done.out.splitlines()]

    async def expect(self, node: str, grace: float) -> None:
        """Register a node with the fleet before it joins, with its own grace period in seconds."""
        await self.client.start_workflow(
            FLEET_NODE_WORKFLOW,
            {"fleet": self.authority.id, "node": node, "graceSeconds": grace},
            id=fleet_node_id(node),
            task_queue=FLEET_QUEUE,
        )

    async def until(self, node: str, seen: Callable[[FleetNodeView], Any]) -> FleetNodeView:
        """Query the fleet about a node until `seen` is true."""
        handle, deadline, pause = self.client.get_workflow_handle(fleet_node_id(node)), time.monotonic(), pauses(0.1)
        while True:
            view = FleetNodeView.model_validate(await handle.query("fleet_node"))
            if seen(view):
                return view
            assert time.monotonic() < deadline + PATIENCE, view.model_dump_json(indent=1)
            await asyncio.sleep(next(pause))


@dataclass
class Node:
    """A node with simulated pods."""

    name: str
    runtime: Embedded
    server: DevServer
    directory: Path
    worker: NodeProcess | None = None

    @property
    def state_dir(self) -> Path:
        return self.directory / "state"

    async def serve(self) -> None:
        """Start its worker, which takes over from the previous one."""
        worker = NodeProcess.of(self.runtime, self.server, self.directory, node=self.name, start=start_worker)
        self.worker = await worker.ready()

    def kill(self) -> None:
        if self.worker is not None:
            self.worker.kill()

    async def end(self) -> None:
        """Kill its worker, end its runtime, and terminate its workflows, those of its pods among them.

        Its server is shared: another node's pod of the same name would be taken for this one's.
        """
        self.kill()
        await asyncio.to_thread(self.runtime.close)
        client = await connect(self.server.address)
        await _terminated(client, node_workflow_id(self.name))  # first: it starts the others
        query, pause = f"TaskQueue = '{node_task_queue(self.name)}' AND ExecutionStatus = 'Running'", pauses(0.1)
        while found := [each.id async for each in client.list_workflows(query)]:
            for each in found:
                await _terminated(client, each)
            await asyncio.sleep(next(pause))  # the list follows a little later


async def _terminated(client: Client, workflow_id: str) -> None:
    try:
        await client.get_workflow_handle(workflow_id).terminate("its node is gone")
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:  # it has ended by itself, or never begun
            raise


@asynccontextmanager
async def new_node(server: DevServer, directory: Path, *options: str) -> AsyncIterator[Node]:
    """A node that does not serve yet, with a runtime of its own with these options; at the end, all is removed."""
    runtime = await asyncio.to_thread(Embedded.launch, *options)
    node = Node(f"n-{uuid.uuid4().hex[:8]}", runtime, server, directory)
    try:
        yield node
    finally:
        await node.end()


@pytest_asyncio.fixture(loop_scope="session")
async def node(temporal_server: DevServer, tmp_path: Path) -> AsyncIterator[Node]:
    """A serving node."""
    async with new_node(temporal_server, tmp_path, "--simulate") as node:
        await node.serve()
        yield node


@pytest_asyncio.fixture(loop_scope="session")
async def fleet(tmp_path: Path) -> AsyncIterator[FleetOfOne]:
    """A fleet of its own."""
    async with fleet_of_one(tmp_path) as fleet:
        yield fleet


@asynccontextmanager
async def fleet_of_one(directory: Path) -> AsyncIterator[FleetOfOne]:
    """A fleet with a server, a worker's process and a gate of its own."""
    server = await asyncio.to_thread(DevServer.launch, synced=False)
    async with AsyncExitStack() as last:
        last.callback(server.close)
        environ = {"TEMPORAL_ADDRESS": server.address, "SYNCPOD_STATE_DIR": str(directory / "fleet")}
        log = directory / "fleet.log"
        last.enter_context(serving({**os.environ, **environ, "TEMPORAL_CONFIG_FILE": os.devnull}, log))
        client = await fleets_client(server, directory / "fleet")
        fleet = FleetOfOne(open_fleet(fleet_directory(directory / "fleet"), now()), server, client, environ, log)
        await fleet.open()
        last.push_async_callback(fleet.cut)
        yield fleet


async def fleets_client(server: Addressed, state_dir: Path) -> Client:
    """A client with the keys of the fleet in a state directory."""
    settings = ClientConnectConfig(target_host=server.address, namespace="default")
    return await connect_to_fleet(settings, access_to(state_dir))


@contextmanager
def serving(environ: dict[str, str], log: Path) -> Iterator[None]:
    """Run the fleet's worker as a process with this log; asserts that it ends cleanly."""
    command = [sys.executable, str(ROOT / "fleet_worker.py")]
    with (
        log.open("ab") as logged,
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=logged, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("fleet worker ready: Temporal 127.0.0.1:"), log.read_text()
            yield
        finally:
            process.terminate()
        assert process.wait(60) == 0


def pod(name: str, node: str) -> str:
    """A pod's manifest."""
    containers = [{"name": "main", "image": BUSYBOX}]
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": containers}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def words(view: FleetNodeView) -> dict[str, str]:
    """The fleet's report on each pod."""
    return {each.name: each.report.status if each.report else "" for each in view.placed}


async def rotated(fleet: FleetOfOne) -> None:
    """Let the fleet sign and encrypt with a new key, and remove the earlier one once no open workflow needs it."""
    first = (await fleet.say("key", "list")).out.splitlines()[1].split()[0]
    said = (await fleet.say("key", "create")).out
    second = said.removeprefix("key/").removesuffix(" verifies and decrypts from now on\n")
    assert [line.split(maxsplit=2)[0::2] for line in (await fleet.say("key", "list")).out.splitlines()[1:]] == [
        [first, "signs and encrypts"],
        [second, "verifies and decrypts"],
        [FleetSealingKeys(fleet.authority, now).current, "seals and opens"],
    ]
    for _ in range(2):  # the first one may have been killed
        assert (await fleet.say("key", "use", second)).out == f"key/{second} signs and encrypts from now on\n"
    said = (await fleet.say("key", "rotate")).out
    assert said.endswith(" signs and encrypts from now on\n") and first not in said and second not in said
    assert f"key {first} signs and encrypts" not in (await fleet.say("key", "remove", first, code=1)).err
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.5)
    while "could no longer be replayed" in (refused := (await fleet.say("key", "remove", first, code=1)).err):
        assert time.monotonic() < deadline, refused
        await asyncio.sleep(next(pause))
    assert "closed runs cannot be read without it" in refused
    assert (await fleet.say("key", "remove", first, "--force")).out == f"key/{first} removed\n"


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_that_is_cut_off_runs_on_and_takes_the_newest_list_when_it_is_back(
    node: Node, fleet: FleetOfOne
) -> None:
    name, local = node.name, await Client.connect(node.server.address, data_converter=DATA_CONVERTER)
    stays, goes = f"stays-{name}", f"goes-{name}"
    invitation = fleet.invitation(name)  # must come first: without a certificate no message can be opened
    await fleet.expect(name, grace=5)
    joining = await fleet.say("apply", "-f", "-", stdin=pod(stays, name), code=1)
    assert f"node {name} is Joining, and takes no new pods" in joining.err
    keep_membership(node.state_dir, invitation)
    await fleet.until(name, lambda view: view.presence == "Ready")
    assert [line[:3] for line in await fleet.lists("nodes")] == [[name, "Ready", "0"]]

    for each in (stays, goes):
        applied = await fleet.say("apply", "-f", "-", stdin=pod(each, name))
        assert applied.out == f"pod/{each} created on node/{name}\n"
    await fleet.until(name, lambda view: words(view) == {stays: "Running", goes: "Running"})
    assert [line[:4] for line in await fleet.lists("pods")] == [
        [goes, "1/1", "Running", "0"],
        [stays, "1/1", "Running", "0"],
    ]

    await fleet.cut()
    node.kill()
    late = await fleet.say("delete", goes, "--timeout", "1s", code=1)
    assert f'timed out waiting for pod "{goes}" on {name} to end; the deletion continues' in late.err
    await node.serve()
    for each in (stays, goes):
        found = await local.get_workflow_handle(pod_workflow_id("default", each)).query("pod")
        assert found["status"]["containerStatuses"][0]["restartCount"] == 0

    await fleet.open()
    view = await fleet.until(name, lambda view: words(view) == {stays: "Running"})
    assert view.taken == view.generation
    assert isinstance(fleet.server, DevServer)
    kept = b"".join(each.read_bytes() for each in fleet.server.directory.glob("temporal.db*"))
    assert b"FleetNode" in kept
    assert BUSYBOX.encode() not in kept, "the fleet's database shows a spec"
    await rotated(fleet)
    await fleet.say("delete", stays)
    assert not (await fleet.until(name, lambda _: True)).placed, "it has waited for that"
    assert "not found in the fleet" in (await fleet.say("delete", stays, code=1)).err
