"""A node in a fleet, whole: its worker between its own Temporal server and its fleet's gate, with simulated pods."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from fleet_worker import make_worker
from syncpod.gate.authority import Fleet, now, open_fleet
from syncpod.gate.gate import Behind, Gate
from syncpod.messages.fleet import FLEET_NODE_WORKFLOW, FLEET_QUEUE, FleetNodeView, fleet_node_id
from syncpod.messages.identity import pod_workflow_id
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import keep_membership
from syncpod.temporal.plugin import DATA_CONVERTER
from tests.agent.waiting import pauses
from tests.e2e.engine import PATIENCE
from tests.fork_server import start_worker
from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX
from tests.runtimes.temporal import DevServer
from tests.worker.node_process import NodeProcess


@dataclass
class FleetOfOne:
    """A fleet on a server of its own, and the way to it, which a test can cut."""

    authority: Fleet
    server: DevServer
    client: Client
    gate: Gate | None = None
    port: int = 0

    async def open(self) -> None:
        """Let nodes in, always at the same port."""
        self.gate = Gate(self.authority, Behind(self.server.address, "default"), ["localhost"])
        self.port = await self.gate.start("127.0.0.1", self.port)

    async def cut(self) -> None:
        """Keep all nodes out, in the middle of whatever they ask."""
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
        )

    async def update(self, node: str, name: str, asked: dict[str, Any]) -> None:
        await self.client.get_workflow_handle(fleet_node_id(node)).execute_update(name, asked)

    async def expect(self, node: str, grace: float) -> None:
        """Have the fleet know a node before it joins, with its own grace, in seconds."""
        await self.client.start_workflow(
            FLEET_NODE_WORKFLOW,
            {"fleet": self.authority.id, "node": node, "graceSeconds": grace},
            id=fleet_node_id(node),
            task_queue=FLEET_QUEUE,
        )

    async def until(self, node: str, seen: Callable[[FleetNodeView], Any]) -> FleetNodeView:
        """Ask what the fleet knows of a node until `seen` holds."""
        handle, deadline, pause = self.client.get_workflow_handle(fleet_node_id(node)), time.monotonic(), pauses(0.1)
        while True:
            view = FleetNodeView.model_validate(await handle.query("fleet_node"))
            if seen(view):
                return view
            assert time.monotonic() < deadline + PATIENCE, view.model_dump_json(indent=1)
            await asyncio.sleep(next(pause))


@dataclass
class Node:
    """A node whose pods are timers."""

    name: str
    runtime: Embedded
    server: DevServer
    directory: Path
    worker: NodeProcess | None = None

    @property
    def state_dir(self) -> Path:
        return self.directory / "state"

    async def serve(self) -> None:
        """Start its worker, which takes over from the one before."""
        worker = NodeProcess.of(self.runtime, self.server, self.directory, node=self.name, start=start_worker)
        self.worker = await worker.ready()

    def kill(self) -> None:
        if self.worker is not None:
            self.worker.kill()


@pytest_asyncio.fixture(loop_scope="session")
async def node(temporal_server: DevServer, tmp_path: Path) -> AsyncIterator[Node]:
    """A node that serves."""
    runtime = await asyncio.to_thread(Embedded.launch, "--simulate")
    node = Node(f"n-{uuid.uuid4().hex[:8]}", runtime, temporal_server, tmp_path)
    try:
        await node.serve()
        yield node
    finally:
        node.kill()
        await asyncio.to_thread(runtime.close)


@pytest_asyncio.fixture(loop_scope="session")
async def fleet(tmp_path: Path) -> AsyncIterator[FleetOfOne]:
    """A fleet with a server, a worker and a gate of its own."""
    server = await asyncio.to_thread(DevServer.launch, synced=False)
    async with AsyncExitStack() as last:
        last.callback(server.close)
        client = await Client.connect(server.address, data_converter=DATA_CONVERTER)
        await last.enter_async_context(make_worker(client))
        fleet = FleetOfOne(open_fleet(tmp_path / "fleet", now()), server, client)
        await fleet.open()
        last.push_async_callback(fleet.cut)
        yield fleet


def pod(name: str) -> dict[str, Any]:
    """A pod's manifest."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": BUSYBOX}]},
    }


def words(view: FleetNodeView) -> dict[str, str]:
    """What the fleet says of each pod."""
    return {each.name: each.report.status if each.report else "" for each in view.placed}


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_that_is_cut_off_runs_on_and_takes_the_newest_list_when_it_is_back(
    node: Node, fleet: FleetOfOne
) -> None:
    name, local = node.name, await Client.connect(node.server.address, data_converter=DATA_CONVERTER)
    await fleet.expect(name, grace=5)
    keep_membership(node.state_dir, fleet.invitation(name))
    await fleet.until(name, lambda view: view.presence == "Ready")
    stays, goes = f"stays-{name}", f"goes-{name}"
    await fleet.update(name, "place", {"pods": [pod(stays), pod(goes)]})
    await fleet.until(name, lambda view: words(view) == {stays: "Running", goes: "Running"})

    await fleet.cut()
    node.kill()
    await fleet.update(name, "withdraw", {"pods": [{"name": goes}]})
    await node.serve()
    for each in (stays, goes):
        found = await local.get_workflow_handle(pod_workflow_id("default", each)).query("pod")
        assert found["status"]["containerStatuses"][0]["restartCount"] == 0

    await fleet.open()
    view = await fleet.until(name, lambda view: words(view) == {stays: "Running"})
    assert view.taken == view.generation
    await fleet.update(name, "withdraw", {"pods": [{"name": stays}]})
    await fleet.until(name, lambda view: not view.placed)
