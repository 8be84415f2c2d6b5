"""An API server for each test, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from syncpod.kubernetes import reflector
from syncpod.kubernetes.client import ApiClient
from syncpod.kubernetes.kubeconfig import read_kubeconfig
from tests.kubernetes.api_server import ApiServer, served, write_kubeconfig


@pytest_asyncio.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    """A server; the node's waits after failures are short."""
    monkeypatch.setattr(reflector, "BACKOFF_SECONDS", (0.01, 0.02))
    async with served() as server:
        yield server


@pytest_asyncio.fixture
async def client(api: ApiServer, tmp_path: Path) -> AsyncIterator[ApiClient]:
    """A client of the server."""
    config = read_kubeconfig(write_kubeconfig(tmp_path / "node.conf", api))
    async with ApiClient(config, user_agent="test") as opened:
        yield opened
