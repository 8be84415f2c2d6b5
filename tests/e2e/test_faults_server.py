"""After `kill -9` of the Temporal server, pods keep running, and pending changes continue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.agent.waiting import until as until_true
from tests.e2e.faults_support import FaultyNode, ended, faulty_node, held, shell, until
from tests.e2e.words import say, waits_for
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer
from tests.workflows.scripted import container


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def faulty(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FaultyNode]:
    with await asyncio.to_thread(DevServer.launch) as server:
        async with faulty_node(runtime, server, tmp_path_factory.mktemp("node")) as node:
            yield node


async def test_pods_continue_after_a_temporal_server_kill(node: FaultyNode, tmp_path: Path) -> None:
    exits = f"trap 'exit 0' TERM; {waits_for(f'{tmp_path}/now')}; rm {tmp_path}/now; exit 7"
    shared = [{"name": "shared", "hostPath": {"path": str(tmp_path), "type": "Directory"}}]
    mount = [{"name": "shared", "mountPath": str(tmp_path)}]
    runs = await node.apply()
    crashes = await node.apply(shell("a"), shell("exits", exits, volumeMounts=mount), volumes=shared)
    await asyncio.gather(runs.running(), crashes.running())
    before = await runs.containers()
    with held(node, ("CreateContainer", "after")) as stop:
        starts = await node.apply()
        await stop.reached()
        node.server.kill()
        # While the server is down, a container is made and one exits, which cannot be reported.
        now = tmp_path / "now"
        await say(now)
        await until_true(lambda: not now.exists())
    await until(lambda: ended(crashes, "exits"))
    await asyncio.to_thread(node.server.start)
    seen = await crashes.running(exits=1)
    assert container(seen, "exits")["lastState"]["terminated"]["exitCode"] == 7
    await starts.running()
    for pod, restarts in ((runs, {}), (crashes, {"exits": 1}), (starts, {})):
        await pod.assert_whole(**restarts)
    assert await runs.containers() == before
    assert [line["kind"] for line in await runs.history("exit")] == []
    await asyncio.gather(runs.delete(), crashes.delete(), starts.delete())


async def test_pods_continue_after_a_kill_of_server_and_worker(node: FaultyNode) -> None:
    runs = await node.apply()
    await runs.running()
    with held(node, ("RunPodSandbox", "after")) as stop:
        starts = await node.apply()
        await stop.reached()
        node.server.kill()
        await node.kill()
    await asyncio.to_thread(node.server.start)
    await node.serve()
    await asyncio.gather(runs.running(), starts.running())
    await runs.assert_whole()
    await starts.assert_whole()
    await asyncio.gather(runs.delete(), starts.delete())


async def test_a_deletion_completes_after_a_temporal_server_kill(node: FaultyNode) -> None:
    pod = await node.apply()
    await pod.up()
    with held(node, ("StopContainer", "before")) as stop:
        await pod.handle.signal("delete_pod", {})
        await stop.reached()
        node.server.kill()
    await until(lambda: ended(pod, "a"))
    await asyncio.to_thread(node.server.start)
    await pod.gone()
