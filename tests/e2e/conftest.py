"""A node for each runtime, served by one worker process for all tests here, and a node that tests may break."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.engine import EngineNode, Pods, engine_node
from tests.e2e.faults_support import FaultyNode, faulty_node
from tests.runtimes.embedded import Embedded
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def engine(
    runtime: Runtime, temporal_server: DevServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[EngineNode]:
    """A node on each runtime in turn. It ends with the last test of this package: an idle one takes processor time."""
    async with engine_node(runtime, temporal_server, tmp_path_factory.mktemp("engine")) as node:
        yield node


@pytest_asyncio.fixture(loop_scope="session")
async def pods(engine: EngineNode) -> AsyncIterator[Pods]:
    """The test's pods; after the test, no trace of them is left."""
    async with engine.pods() as pods:
        yield pods


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def faulty(
    runtime: Runtime, temporal_server: DevServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[FaultyNode]:
    """A node that tests may break, on each runtime in turn; all tests of a module share it."""
    async with faulty_node(runtime, temporal_server, tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest_asyncio.fixture(loop_scope="session")
async def node(faulty: FaultyNode) -> AsyncIterator[FaultyNode]:
    """That node for one test; after the test it is repaired, and the test's pods are removed."""
    if isinstance(faulty.runtime, Embedded) and not faulty.runtime.gates.spawners:
        await faulty.warm_up()  # a new server has no spawner, and another test may have killed the old one
    yield faulty
    await faulty.recover()
