"""A fleet on a real Temporal cluster, whose servers and database are killed while its nodes get and lose pods.

The assertions: every change is answered in the end; and then the running containers, in each node's runtime and in the
fleet's lists, are the expected ones.
"""

from __future__ import annotations

import asyncio

import pytest

from syncpod.agent.takeover.search_attributes import register_search_attributes
from syncpod.messages.fleet import FleetNodeView, fleet_node_id
from tests.cluster.fleets import answered, join, manifests, runs, seen
from tests.e2e.test_fleet import FleetOfOne, Node, pod
from tests.nightly import NIGHTLY
from tests.runtimes.temporal_cluster import APART, DATABASES, TemporalCluster

AT_FIRST, LATER, GONE = 7, 3, 3
"""The numbers of each node's pods that are placed before the faults, and placed and withdrawn during them."""


async def test_servers_and_the_database_die_and_no_pod_is_lost_or_doubled(
    cluster: TemporalCluster, nodes: list[Node], fleet: FleetOfOne
) -> None:
    assert await register_search_attributes(fleet.client)
    await join(fleet, nodes)

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
    await join(fleet, [node])
    placed: list[str] = []
    for server in cluster.servers:
        (role,) = server.roles
        server.kill()
        placed.append(f"{role}-{node.name}")
        placing = asyncio.create_task(answered(fleet, "apply", "-f", "-", stdin=pod(placed[-1], node.name)))
        await asyncio.sleep(0)  # it gets requests while the role is down
        server.start()
        await placing
        await seen(fleet, node.name, dict.fromkeys(placed, "Running"))
    assert await runs(node) == {name: [("running", 0)] for name in placed}


@pytest.mark.skipif(not NIGHTLY, reason="all servers start three times: `make nightly`")
async def test_a_database_restored_from_a_backup_takes_the_newer_list_of_its_node(
    cluster: TemporalCluster, nodes: list[Node], fleet: FleetOfOne
) -> None:
    node = nodes[0]
    before, after, last = f"before-{node.name}", f"after-{node.name}", f"last-{node.name}"
    await join(fleet, [node], grace=50)  # a lost call to the node times out after two fifths of that
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
    # The fleet's worker ran all the while, and knew of a later state than that which is restored.
    await answered(fleet, "apply", "-f", "-", stdin=pod(last, node.name))
    await seen(fleet, node.name, dict.fromkeys((before, after, last), "Running"))
    assert await runs(node) == {name: [("running", 0)] for name in (before, after, last)}

    # More commands than the backup lacks, before the node is heard: their list has a higher number than the node's.
    backup = await asyncio.to_thread(cluster.database.dump, DATABASES)
    newest = f"newest-{node.name}"
    await answered(fleet, "apply", "-f", "-", stdin=pod(newest, node.name))
    everything = (before, after, last, newest)
    known = await seen(fleet, node.name, dict.fromkeys(everything, "Running"))
    await fleet.cut()
    for server in cluster.servers:
        server.kill()
    await asyncio.to_thread(cluster.database.restore, backup)
    await asyncio.to_thread(cluster.start)
    for name in (before, after, last):
        await answered(fleet, "delete", name, "--wait=false")
    given = FleetNodeView.model_validate(
        await fleet.client.get_workflow_handle(fleet_node_id(node.name)).query("fleet_node")
    )
    assert given.generation > known.generation
    await fleet.open()
    await seen(fleet, node.name, dict.fromkeys(everything, "Running"))
    assert await runs(node) == {name: [("running", 0)] for name in everything}
