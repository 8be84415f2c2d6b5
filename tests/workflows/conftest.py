"""One client for the workflow tests, and a new scripted node for each test."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from tests.runtimes import selection
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.workflows.runs import Noting
from tests.workflows.sandbox import Sandbox
from tests.workflows.scripted import ScriptedNode, scripted_worker
from workflows.runner import workflow_runner

CACHED, REPLAYED = "cached", "replayed at every task"
"""How a worker runs workflows in these tests."""


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def client(temporal_server: DevServer) -> Client:
    return await connect(temporal_server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of a worker with a cache; if so marked, or if all tests are requested, also without one."""
    if "worker_options" not in metafunc.fixturenames:
        return
    marked = metafunc.definition.get_closest_marker("replayed_at_every_task") is not None
    ways = [CACHED, REPLAYED] if marked or selection.asked_for() == selection.ALL else [CACHED]
    metafunc.parametrize("worker_options", ways, indirect=True)


@pytest_asyncio.fixture(loop_scope="session")
async def worker_options(request: pytest.FixtureRequest, client: Client) -> AsyncIterator[dict[str, Any]]:
    """With or without a cache. Either way each run is replayed from its start, which proves it deterministic.

    Without a cache each task replays it, by the runner of workers. With one, the run goes on in the sandbox, and its
    whole history is replayed by the runner of workers when the test is over.
    """
    if request.param == REPLAYED:
        yield {"max_cached_workflows": 0, "workflow_runner": workflow_runner()}
        return
    noting = Noting(Sandbox())
    yield {"max_cached_workflows": 1000, "workflow_runner": noting}
    await noting.replay(client)


@pytest_asyncio.fixture(loop_scope="session")
async def node(client: Client, worker_options: dict[str, Any]) -> AsyncIterator[ScriptedNode]:
    scripted = ScriptedNode()
    async with scripted_worker(client, scripted, **worker_options):
        yield scripted
