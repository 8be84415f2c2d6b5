"""A worker does not serve a node that a worker on another machine serves.

Holds: A node has one agent on a machine.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import Worker

from syncpod.agent.takeover import rival
from syncpod.agent.takeover.lock import NodeLife, NotThisNode
from tests.agent.stub_workflows import hangs
from tests.agent.waiting import until_asked
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect

HERE = NodeLife("n1", "this-machine", 5)
THERE = NodeLife("n1", "other-machine", 9)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rival, "_BEAT_PATIENCE", timedelta(seconds=4))


async def connected(server: DevServer) -> Client:
    """A client with an SDK runtime of its own, since one runtime accepts only one worker per queue."""
    runtime = Runtime(telemetry=TelemetryConfig(), worker_heartbeat_interval=timedelta(seconds=1))
    return await connect(server.address, runtime=runtime)


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def client(temporal_server: DevServer) -> Client:
    return await connected(temporal_server)


@pytest.fixture
def task_queue() -> str:
    return f"node/{uuid.uuid4()}"


@asynccontextmanager
async def serving(client: Client, task_queue: str, life: NodeLife) -> AsyncIterator[None]:
    async with Worker(client, task_queue=task_queue, identity=life.identity, activities=[hangs]):

        async def seen() -> bool:
            signs = await rival.signs(client, task_queue)
            return any(sign.identity == life.identity and sign.started for sign in signs)

        await until_asked(seen)
        yield


async def test_a_node_without_another_worker_is_free(client: Client, task_queue: str) -> None:
    await rival.refuse_rivals(client, task_queue, HERE)


async def test_a_live_worker_on_another_machine_causes_a_refusal_that_names_it(client: Client, task_queue: str) -> None:
    where = re.escape(f"(process {os.getpid()} on {socket.gethostname()})")
    named = f"node n1 is served by another worker, n1/other-machine/9 {where}: stop it, or"
    async with serving(client, task_queue, THERE):
        with pytest.raises(NotThisNode, match=named):
            await rival.refuse_rivals(client, task_queue, HERE)


async def test_an_earlier_worker_on_this_machine_is_no_rival(client: Client, task_queue: str) -> None:
    async with serving(client, task_queue, NodeLife("n1", "this-machine", 4)):
        await rival.refuse_rivals(client, task_queue, HERE)


async def test_a_worker_that_shut_down_leaves_the_node_free(client: Client, task_queue: str) -> None:
    async with serving(client, task_queue, THERE):
        pass
    assert await rival.signs(client, task_queue) == ()


async def test_the_later_of_two_workers_is_refused(client: Client, temporal_server: DevServer, task_queue: str) -> None:
    other = await connected(temporal_server)
    async with serving(other, task_queue, THERE), serving(client, task_queue, HERE):
        refusal = await rival.outranked(client, task_queue, HERE)
        assert "served by another worker, n1/other-machine/9" in str(refusal)
        assert await rival.outranked(client, task_queue, THERE) is None


async def test_the_later_of_a_machine_and_its_copy_is_refused_and_told_so(
    client: Client, temporal_server: DevServer, task_queue: str
) -> None:
    other, copy = await connected(temporal_server), NodeLife("n1", "this-machine", 4)
    async with serving(other, task_queue, copy), serving(client, task_queue, HERE):
        refusal = str(await rival.outranked(client, task_queue, HERE))
        assert refusal.startswith(f"node n1 is served by another worker, n1/this-machine/4 (process {os.getpid()} on ")
        assert "one of the two machines is a copy. Give the copy an /etc/machine-id, a state directory and" in refusal
        assert await rival.outranked(client, task_queue, copy) is None


async def test_a_copy_of_this_machine_with_another_host_name_is_refused_before_it_serves(
    client: Client, task_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(client, task_queue, NodeLife("n1", "this-machine", 4)):
        monkeypatch.setattr(socket, "gethostname", lambda: "the-copy")
        with pytest.raises(NotThisNode, match="of this one on the-copy: one of the two machines is a copy"):
            await rival.refuse_rivals(client, task_queue, HERE)


async def test_a_worker_not_heard_of_for_long_is_no_rival(
    client: Client, task_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rival, "_LONG_DEAD", timedelta(0))
    async with serving(client, task_queue, THERE):
        await rival.refuse_rivals(client, task_queue, HERE)
