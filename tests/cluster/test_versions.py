"""A fleet's cluster is upgraded and downgraded as in docs/fleet-cluster.md, while its nodes run.

The tests need the directory of older servers' programs and schemas, built as in .ci/run, in a variable.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.agent.takeover.search_attributes import register_search_attributes
from tests.cluster.fleets import answered, join, running
from tests.e2e.test_fleet import FleetOfOne, Node, pod
from tests.e2e.test_fleet_placement import deployment
from tests.runtimes.require import Missing, do_without
from tests.runtimes.temporal_cluster import DATABASES, TemporalCluster, server_programs

VARIABLE = "SYNCPOD_OLDER_TEMPORAL_SERVER"


@pytest.fixture
def older() -> Path:
    """The directory of an older version's programs and schemas."""
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"{VARIABLE} names no directory of an older `temporal-server`")
    return Path(named)


@pytest.fixture
def cluster(older: Path) -> Iterator[TemporalCluster]:
    """A cluster of older servers, with their schemas."""
    try:
        both = (older, server_programs())
        versions = [subprocess.check_output([each / "temporal-server", "--version"], text=True) for each in both]
        assert versions[0] != versions[1], f"both are {versions[0]}"
        cluster = TemporalCluster.launch(programs=older)
    except Missing as missing:
        do_without("temporal-cluster", str(missing))
    with cluster:
        yield cluster


async def test_newer_servers_and_the_older_ones_again_leave_all_pods_running(
    cluster: TemporalCluster, older: Path, nodes: list[Node], fleet: FleetOfOne
) -> None:
    newer, (one, other) = server_programs(), nodes

    async def renewed(programs: Path, index: int) -> None:
        server = cluster.servers[index]
        await asyncio.to_thread(server.stop)
        server.become(programs)
        server.start()
        await asyncio.to_thread(server.until_serving)

    assert await register_search_attributes(fleet.client)
    await join(fleet, nodes)
    await answered(fleet, "apply", "-f", "-", stdin=deployment("web", 2, {}))
    await answered(fleet, "apply", "-f", "-", stdin=pod("first", one.name))
    await running(fleet, nodes, "web-1", "web-2", "first")

    backup = await asyncio.to_thread(cluster.database.dump, DATABASES)
    await asyncio.to_thread(cluster.update_schema, newer)
    await answered(fleet, "apply", "-f", "-", stdin=pod("new-schema", other.name))
    await running(fleet, nodes, "web-1", "web-2", "first", "new-schema")

    placing = asyncio.create_task(answered(fleet, "apply", "-f", "-", stdin=pod("meanwhile", one.name)))
    await renewed(newer, 0)
    await placing
    await answered(fleet, "apply", "-f", "-", stdin=pod("both", other.name))
    await running(fleet, nodes, "web-1", "web-2", "first", "new-schema", "meanwhile", "both")
    withdrawing = asyncio.create_task(answered(fleet, "delete", "first"))
    await renewed(newer, 1)
    await withdrawing
    await answered(fleet, "apply", "-f", "-", stdin=pod("newer", one.name))
    stay = ("web-1", "web-2", "new-schema", "meanwhile", "both", "newer")
    await running(fleet, nodes, *stay)

    # The way back: the older servers on the older schema, whose database knows two of the pods, and one that is gone.
    for server in cluster.servers:
        await asyncio.to_thread(server.stop)
        server.become(older)
    await asyncio.to_thread(cluster.database.restore, backup)
    await asyncio.to_thread(cluster.start)
    await running(fleet, nodes, *stay)
    await answered(fleet, "apply", "-f", "-", stdin=pod("older", other.name))
    await running(fleet, nodes, *stay, "older")
