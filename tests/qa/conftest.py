"""The running cases of `qa.manifests`, on each runtime."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from qa.manifests.fewest import DOCUMENTED, EXEMPLIFIED
from qa.manifests.running import Run
from tests.runtimes.containerd import Containerd
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def documented(
    containerd: Containerd, temporal_server: DevServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Run]:
    """The running cases of the documentation's manifests."""
    directory = tmp_path_factory.mktemp("documented")
    async with Run.begun(DOCUMENTED, containerd, temporal_server, directory) as run:
        yield run


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def exemplified(
    runtime: Runtime, temporal_server: DevServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Run]:
    """The running cases of the examples."""
    if os.geteuid() != 0:
        pytest.skip("docs/manifests.md tells what becomes of the examples where the runtime is root's")
    directory = tmp_path_factory.mktemp("exemplified")
    async with Run.begun(EXEMPLIFIED, runtime, temporal_server, directory) as run:
        yield run
