"""One client for the workflow tests, and a fresh scripted node for each."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from syncpod.temporal.plugin import DATA_CONVERTER
from tests.runtimes.temporal import DevServer
from tests.workflows.scripted import ScriptedNode, scripted_worker


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def client(temporal_server: DevServer) -> Client:
    return await Client.connect(temporal_server.address, data_converter=DATA_CONVERTER)


@pytest.fixture(params=[1000, 0], ids=["cached", "replayed at every task"])
def worker_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """With and without a cache: without, each task replays the run from its start, which proves it deterministic."""
    return {"max_cached_workflows": request.param}


@pytest_asyncio.fixture(loop_scope="session")
async def node(client: Client, worker_options: dict[str, Any]) -> AsyncIterator[ScriptedNode]:
    scripted = ScriptedNode()
    async with scripted_worker(client, scripted, **worker_options):
        yield scripted
