"""A real server for each module that calls one, its client, and a pod on it; some modules start other kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.runtime.real_pods import Pod
from tests.runtimes.bare import BareCri
from tests.runtimes.embedded import Embedded


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    """A server of the module's own, since the module's tests kill it."""
    with Embedded.launch() as running:
        yield running


@pytest.fixture(scope="module")
def simulated() -> Iterator[Embedded]:
    """A server of the module's own that simulates processes."""
    with Embedded.launch("--simulate") as running:
        yield running


@pytest.fixture
async def calls(server: Embedded) -> AsyncIterator[BareCri]:
    """A plain channel to the server's CRI."""
    async with BareCri(server.endpoint, cgroup_parent=server.cgroup_parent) as bare:
        yield bare


@pytest.fixture
async def pod(calls: BareCri, tmp_path: Path) -> AsyncIterator[Pod]:
    """A pod with a sandbox; it is removed at the end of the test."""
    made = Pod(calls, logs=tmp_path / "logs")
    await made.run()
    yield made
    await made.remove()
