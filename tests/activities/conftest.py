"""A node on each real runtime, new for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.activities.bench import Bench, bench_of
from tests.runtimes.containerd import Containerd


@pytest.fixture(scope="session")
def runtime(containerd: Containerd) -> Containerd:
    """Each containerd in turn, since only there tests can delay CNI and runc, and pull from a registry."""
    return containerd


@pytest_asyncio.fixture
async def bench(runtime: Containerd, tmp_path: Path) -> AsyncIterator[Bench]:
    """A node whose steps can be run."""
    async with bench_of(runtime, tmp_path) as bench:
        yield bench
