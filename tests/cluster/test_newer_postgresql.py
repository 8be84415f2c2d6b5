"""A fleet's databases are moved to a newer PostgreSQL as in docs/fleet-cluster.md, while its nodes run.

The tests need the directory of the newer PostgreSQL's programs in a variable.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from syncpod.agent.takeover.search_attributes import register_search_attributes
from tests.cluster.fleets import answered, join, running
from tests.e2e.test_fleet import FleetOfOne, Node, pod
from tests.e2e.test_fleet_placement import deployment
from tests.runtimes.temporal_cluster import DATABASES, TemporalCluster

VARIABLE = "SYNCPOD_NEWER_POSTGRESQL"


@pytest.fixture
def newer() -> Path:
    """The directory of a newer version's programs."""
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"{VARIABLE} names no directory of a newer PostgreSQL's programs")
    return Path(named)


async def test_a_fleet_whose_database_moves_to_a_newer_postgresql_goes_on_without_a_restart(
    newer: Path, cluster: TemporalCluster, nodes: list[Node], fleet: FleetOfOne
) -> None:
    database, (one, other) = cluster.database, nodes
    assert await register_search_attributes(fleet.client)
    await join(fleet, nodes)
    await answered(fleet, "apply", "-f", "-", stdin=deployment("web", 2, {}))
    await answered(fleet, "apply", "-f", "-", stdin=pod("first", one.name))
    await running(fleet, nodes, "web-1", "web-2", "first")

    for server in cluster.servers:
        await asyncio.to_thread(server.stop)
    before = database.ask("temporal", "SHOW server_version")
    backup = await asyncio.to_thread(lambda: database.dump(DATABASES, programs=newer))
    await asyncio.to_thread(database.begin_anew, newer)
    await asyncio.to_thread(database.restore, backup)
    after = database.ask("temporal", "SHOW server_version")
    assert int(before.partition(".")[0]) < int(after.partition(".")[0]), f"{before} became {after}"
    await asyncio.to_thread(cluster.start)

    await running(fleet, nodes, "web-1", "web-2", "first")
    await answered(fleet, "apply", "-f", "-", stdin=pod("newer", other.name))
    await running(fleet, nodes, "web-1", "web-2", "first", "newer")
    await answered(fleet, "apply", "-f", "-", stdin=deployment("web", 2, {"release": "2"}))
    await answered(fleet, "rollout", "status", "deployment/web")
    await answered(fleet, "delete", "first")
    await running(fleet, nodes, "web-3", "web-4", "newer")
