"""A fleet on a real Temporal cluster, and two nodes with simulated pods."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import fleet_directory
from tests.e2e.test_fleet import FleetOfOne, Node, fleets_client, new_node, serving
from tests.runtimes.require import Missing, do_without
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_cluster import TOGETHER, Balancer, TemporalCluster


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[TemporalCluster]:
    """A cluster of the test's own, since tests kill its parts.

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
        log = tmp_path / "fleet.log"
        worker = serving({**os.environ, **environ, "TEMPORAL_CONFIG_FILE": os.devnull}, log)
        await asyncio.to_thread(worker.__enter__)
        last.push_async_callback(asyncio.to_thread, worker.__exit__, None, None, None)
        client = await fleets_client(front, state_dir)
        fleet = FleetOfOne(open_fleet(fleet_directory(state_dir), now()), front, client, environ, log)
        await fleet.open()
        last.push_async_callback(fleet.cut)
        yield fleet


@pytest_asyncio.fixture(loop_scope="session")
async def nodes(temporal_server: DevServer, tmp_path: Path) -> AsyncIterator[list[Node]]:
    """Two serving nodes, each with a runtime of its own."""
    async with AsyncExitStack() as last:
        nodes = []
        for number in range(2):
            directory = tmp_path / f"node{number}"
            directory.mkdir()
            nodes.append(await last.enter_async_context(new_node(temporal_server, directory, "--simulate")))
        await asyncio.gather(*(node.serve() for node in nodes))
        yield nodes
