"""The manifests on their way, on each containerd in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.manifests import documentation
from tests.manifests.running import Run
from tests.runtimes.containerd import Containerd
from tests.runtimes.temporal import DevServer


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def documented(
    containerd: Containerd, temporal_server: DevServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Run]:
    """The documentation's manifests, all begun."""
    directory = tmp_path_factory.mktemp("documented")
    async with Run.begun(documentation.CASES, containerd, temporal_server, directory) as run:
        yield run
