"""A fleet on a real Temporal cluster, whose servers and database die while its nodes get and lose pods.

What is asserted is that every change is answered in the end, and what then runs: by each node's own runtime, past
everything of ours, and by what the fleet says.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.service import RPCError

from syncpod.agent.takeover.search_attributes import register_search_attributes
from syncpod.cri.client import CriClient
from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.messages.fleet import FleetNodeView, fleet_node_id
from syncpod.settings.membership import keep_membership
from syncpod.translation.names import POD_NAME_LABEL
from tests.agent.waiting import pauses
from tests.e2e.test_fleet import FleetOfOne, Node, fleets_client, pod, serving, words
from tests.nightly import NIGHTLY
from tests.runtimes.embedded import Embedded
from tests.runtimes.require import Missing, do_without
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_cluster import APART, DATABASES, TOGETHER, Balancer, TemporalCluster

PATIENCE = 240.0
"""Seconds for which anything is waited for, a dead server's share of the work included."""
GRACE = 300.0
"""Seconds for which a node may be silent here. Its polls end with the server that holds them; it is not gone."""
AT_FIRST, LATER, GONE = 7, 3, 3
"""Pods of each node: those placed before anything dies, those placed and those withdrawn meanwhile."""


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[TemporalCluster]:
    """A cluster of the test's own: what dies here is shared with nobody, and each fleet reads only what is its own.

    It has the servers that the test asks for, else two with all roles.
    """
    try:
        cluster = TemporalCluster.launch(getattr(request, "param", TOGETHER))
    except Missing as missing:
        do_without("temporal-cluster", str(missing))
    with cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def fleet(cluster: TemporalCluster, tmp_path: Path) -> AsyncIterator[FleetOfOne]:
    """A fleet on the cluster: a worker's process and a gate."""
    async with AsyncExitStack() as last:
        front = await last.enter_async_context(Balancer(cluster.frontends))
        state_dir = tmp_path / "fleet"
        environ = {"TEMPORAL_ADDRESS": front.address, "SYNCPOD_STATE_DIR": str(state_dir)}
        worker = serving({**os.environ, **environ, "TEMPORAL_CONFIG_FILE": os.devnull})
        await asyncio.to_thread(worker.__enter__)
        last.push_async_callback(asyncio.to_thread, worker.__exit__, None, None, None)
        client = await fleets_client(front, state_dir)
        fleet = FleetOfOne(open_fleet(fleet_directory(state_dir), now()), front, client, environ)
        await fleet.open()
        last.push_async_callback(fleet.cut)
        yield fleet


@pytest_asyncio.fixture(loop_scope="session")
async def nodes(temporal_server: DevServer, tmp_path: Path) -> AsyncIterator[list[Node]]:
    """Two nodes that serve, each with a runtime of its own."""
    async with AsyncExitStack() as last:
        nodes = []
        for _ in range(2):
            runtime = await asyncio.to_thread(Embedded.launch, "--simulate")
            last.push_async_callback(asyncio.to_thread, runtime.close)
            name = f"n-{uuid.uuid4().hex[:8]}"
            directory = tmp_path / name
            directory.mkdir()
            nodes.append(Node(name, runtime, temporal_server, directory))
            last.callback(nodes[-1].kill)
        await asyncio.gather(*(node.serve() for node in nodes))
        yield nodes


async def answered(fleet: FleetOfOne, *words: str, stdin: str = "") -> int:
    """Say something to the fleet until it is answered; return how often that took.

    A deletion whose answer was lost may find nothing to delete the next time.
    """
    deadline, pause, tries = time.monotonic() + PATIENCE, pauses(0.5, 2), 0
    while True:
        tries += 1
        try:
            await fleet.say(*words, stdin=stdin)
        except AssertionError as refused:
            if tries > 1 and words[0] == "delete" and "not found in the fleet" in str(refused):
                return tries
            assert time.monotonic() < deadline, refused
            await asyncio.sleep(next(pause))
        else:
            return tries


async def seen(fleet: FleetOfOne, node: str, statuses: dict[str, str]) -> FleetNodeView:
    """Wait until the fleet says exactly this of a node's pods, and knows that the node has its newest list."""
    handle, deadline, pause = fleet.client.get_workflow_handle(fleet_node_id(node)), time.monotonic(), pauses(0.2, 1)
    said = "nothing"
    while time.monotonic() < deadline + PATIENCE:
        try:
            view = FleetNodeView.model_validate(await handle.query("fleet_node"))
        except RPCError as away:
            said = str(away)
        else:
            if words(view) == statuses and view.taken == view.generation and view.presence == "Ready":
                return view
            said = view.model_dump_json(indent=1)
        await asyncio.sleep(next(pause))
    raise AssertionError(said)


async def runs(node: Node) -> dict[str, list[tuple[str, int]]]:
    """The containers that a node's runtime has for each pod, dead ones too: the state of each, and its attempt."""
    cri = CriClient(node.runtime.endpoint)
    try:
        found: dict[str, list[tuple[str, int]]] = {}
        for each in await cri.list_containers():
            status = await cri.container_status(each.id)
            found.setdefault(each.labels[POD_NAME_LABEL], []).append((status.state, status.attempt))
        sandboxes = Counter(each.labels[POD_NAME_LABEL] for each in await cri.list_pod_sandboxes())
    finally:
        await cri.close()
    assert sandboxes == Counter(found.keys())
    return found


def manifests(names: list[str], node: str) -> str:
    return "\n---\n".join(pod(name, node) for name in names)


async def test_servers_and_the_database_die_and_no_pod_is_lost_or_doubled(
    cluster: TemporalCluster, nodes: list[Node], fleet: FleetOfOne
) -> None:
    assert await register_search_attributes(fleet.client)
    for node in nodes:
        invitation = fleet.invitation(node.name)
        await fleet.expect(node.name, grace=GRACE)
        keep_membership(node.state_dir, invitation)
    await asyncio.gather(*(seen(fleet, node.name, {}) for node in nodes))

    def named(word: str, node: Node, count: int) -> list[str]:
        return [f"{word}{number}-{node.name}" for number in range(count)]

    first = {node.name: named("first", node, AT_FIRST) for node in nodes}
    later = {node.name: named("later", node, LATER) for node in nodes}
    for node in nodes:
        await answered(fleet, "apply", "-f", "-", stdin=manifests(first[node.name], node.name))
    for node in nodes:
        await seen(fleet, node.name, dict.fromkeys(first[node.name], "Running"))

    # One server dies, and so does half of all shards and polls, while pods are placed.
    cluster.servers[0].kill()
    for node in nodes:
        await answered(fleet, "apply", "-f", "-", stdin=manifests(later[node.name], node.name))
    # The database dies under the other, while pods are withdrawn.
    leaving = [first[node.name][:GONE] for node in nodes]
    withdrawals = [asyncio.create_task(answered(fleet, "delete", "--wait=false", *gone)) for gone in leaving]
    await asyncio.to_thread(cluster.database.restart)
    await asyncio.gather(*withdrawals)
    # The first one is back, and the other dies.
    cluster.servers[0].start()
    await asyncio.to_thread(cluster.servers[0].until_serving)
    cluster.servers[1].kill()

    for node in nodes:
        stay = [*first[node.name][GONE:], *later[node.name]]
        await seen(fleet, node.name, dict.fromkeys(stay, "Running"))
        assert await runs(node) == {name: [("running", 0)] for name in stay}


@pytest.mark.skipif(not NIGHTLY, reason="each role as a process of its own: `make nightly`")
@pytest.mark.parametrize("cluster", [APART], ids=["apart"], indirect=True)
async def test_each_role_apart_may_die(cluster: TemporalCluster, nodes: list[Node], fleet: FleetOfOne) -> None:
    node = nodes[0]
    invitation = fleet.invitation(node.name)
    await fleet.expect(node.name, grace=GRACE)
    keep_membership(node.state_dir, invitation)
    await seen(fleet, node.name, {})
    placed: list[str] = []
    for server in cluster.servers:
        (role,) = server.roles
        server.kill()
        placed.append(f"{role}-{node.name}")
        placing = asyncio.create_task(answered(fleet, "apply", "-f", "-", stdin=pod(placed[-1], node.name)))
        await asyncio.sleep(0)  # it is asked while the role is away
        server.start()
        await placing
        await seen(fleet, node.name, dict.fromkeys(placed, "Running"))
    assert await runs(node) == {name: [("running", 0)] for name in placed}


async def test_a_database_restored_from_a_backup_takes_the_newer_list_of_its_node(
    cluster: TemporalCluster, nodes: list[Node], fleet: FleetOfOne
) -> None:
    node = nodes[0]
    before, after = f"before-{node.name}", f"after-{node.name}"
    invitation = fleet.invitation(node.name)
    await fleet.expect(node.name, grace=GRACE)
    keep_membership(node.state_dir, invitation)
    await seen(fleet, node.name, {})
    await answered(fleet, "apply", "-f", "-", stdin=pod(before, node.name))
    await seen(fleet, node.name, {before: "Running"})
    backup = await asyncio.to_thread(cluster.database.dump, DATABASES)
    await answered(fleet, "apply", "-f", "-", stdin=pod(after, node.name))
    await seen(fleet, node.name, {before: "Running", after: "Running"})

    for server in cluster.servers:
        server.kill()
    await asyncio.to_thread(cluster.database.restore, backup)
    await asyncio.to_thread(cluster.start)
    await seen(fleet, node.name, {before: "Running", after: "Running"})
    assert await runs(node) == {name: [("running", 0)] for name in (before, after)}
