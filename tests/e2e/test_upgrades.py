"""A worker is replaced by a newer version, and that by the older one again, without effect on the pods.

Holds: Neither an upgrade nor a downgrade touches a container.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from syncpod.cri.client import CriClient
from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from tests.e2e.engine import PATIENCE, EngineNode, LivePod, Pods, shell, status_of
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect
from tests.worker.node_process import ROOT, NodeProcess

PARTS = ("syncpod", "workflows", "activities", "protos", "worker.py")
"""The parts of the source tree that a worker needs."""

FORBIDS = "example.com/forbids-restarts"
"""The annotation that only the newer version obeys."""

NEWER = {
    "syncpod/lifecycle/version.py": [
        (f"DECISION_VERSION = {DECISION_VERSION}\n", f"DECISION_VERSION = {DECISION_VERSION + 1}\n")
    ],
    "workflows/pod/state.py": [
        (
            "from datetime import datetime, timedelta\n",
            "from dataclasses import replace\nfrom datetime import datetime, timedelta\n",
        ),
        (
            "        return restart_settings(self.pod.metadata.annotations, self.node.restart_backoff_max)\n",
            "        settings = restart_settings(self.pod.metadata.annotations)\n"
            f"        if self.decision_version > {DECISION_VERSION} and {FORBIDS!r} in self.pod.metadata.annotations:\n"
            "            return replace(settings, limit=0)\n"
            "        return settings\n",
        ),
    ],
    "workflows/pod/start.py": [
        ('{"snapshot": taken, ', '{"snapshot": {**taken, "of_the_newer": {"kept": True}}, '),
    ],
}
"""The changes that make the next version: it obeys an annotation, and its snapshot has a new field."""


def newer_tree(directory: Path) -> Path:
    """A source tree of a possible next version."""
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, directory / part)
    for name, changes in NEWER.items():
        text = (directory / name).read_text()
        for now, then in changes:
            assert now in text, f"{name}: {now}"
            text = text.replace(now, then)
        (directory / name).write_text(text)
    return directory


class Fleet:
    """One node, served in turn by workers of different source trees."""

    def __init__(self, node: EngineNode, directory: Path) -> None:
        self.node = node
        self.directory = directory

    async def serve(self, tree: Path) -> None:
        """End the current worker, and start one from `tree`."""

        def start(command: list[str], **more: Any) -> subprocess.Popen[bytes]:
            program, _, *arguments = command
            return subprocess.Popen([program, str(tree / "worker.py"), *arguments], **more)

        await self.end()
        node = self.node
        node.worker = NodeProcess.of(node.runtime, node.server, self.directory, node=node.name, start=start)
        await self.node.worker.ready()

    async def end(self) -> None:
        """End the current worker, as an upgrade does."""
        if hasattr(self.node, "worker"):
            assert await self.node.worker.stop() == 0, self.node.worker.log.read_text()
            del self.node.worker


@contextlib.asynccontextmanager
async def fleet(runtime: Runtime, server: DevServer, directory: Path) -> AsyncIterator[Fleet]:
    client = await connect(server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
    async with CriClient(runtime.endpoint) as cri:
        node = EngineNode(f"n-{uuid.uuid4().hex[:8]}", server, runtime, client, cri, None)  # type: ignore[arg-type]
        del node.worker
        one = Fleet(node, directory)
        try:
            yield one
        finally:
            if hasattr(node, "worker"):
                node.worker.close()


async def instances(pods: list[LivePod]) -> dict[str, list[tuple[str, int, str]]]:
    """For each pod, the ids of its sandboxes, and its containers in the runtime with number and state."""
    return {
        pod.name: [
            *((each.id, each.restart_count, each.state) for each in await pod.containers()),
            *((each.id, each.attempt, each.state) for each in await pod.sandboxes()),
        ]
        for pod in pods
    }


async def runs(pods: list[LivePod]) -> list[str]:
    return [(await pod.handle.describe()).run_id for pod in pods]


async def renewed(pods: list[LivePod], before: list[str]) -> list[str]:
    """Wait until each pod's workflow has another run."""
    async with asyncio.timeout(PATIENCE):
        while True:
            now = await runs(pods)
            if not set(now) & set(before):
                return now
            await asyncio.sleep(0.1)


async def types_of_events(pod: LivePod) -> Counter[int]:
    """The number of events of each type in a pod's runs."""
    client = pod.node.client
    types: Counter[int] = Counter()
    async for run in client.list_workflows(f"WorkflowId = '{pod.handle.id}'"):
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        types.update(event.event_type for event in history.events)
    return types


def held(pod: dict[str, Any]) -> bool:
    return bool(status_of(pod, "web")["state"].get("waiting", {}).get("reason") == "RestartLimitReached")


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)  # the cheapest: nothing here is a runtime's
async def test_an_upgrade_and_a_downgrade_leave_pods_untouched(
    runtime: Runtime, temporal_server: DevServer, tmp_path: Path
) -> None:
    (tree := tmp_path / "newer").mkdir()
    older, newer = ROOT, newer_tree(tree)
    async with fleet(runtime, temporal_server, tmp_path) as engine:
        await engine.serve(older)
        async with engine.node.pods() as pods:
            steady = await pods.apply(
                "steady", shell("web"), initContainers=[{**shell("one"), "restartPolicy": "Always"}]
            )
            over = await pods.apply("over", shell("web", "exit 0"), restartPolicy="Never")
            governed = await limited(pods)
            await asyncio.gather(steady.running(), over.phase("Succeeded"), governed.running())
            await crash(governed)
            await governed.running(web=1)
            every = [steady, over, governed]
            before, begun = await instances(every), await runs(every)

            await engine.serve(newer)
            upgraded = await renewed(every, begun)
            await governed.running(web=1)
            assert await instances(every) == before, "ids, numbers and states"
            assert status_of(await steady.running(one=0), "web")["restartCount"] == 0
            await crash(governed)
            await governed.until(held)
            before = await instances(every)

            for pod in every:
                await pod.handle.signal("renew", {})
            await renewed(every, upgraded)
            await engine.serve(older)
            await steady.running(one=0)
            await governed.running(web=2)
            now = await instances(every)
            assert {name: now[name] for name in (steady.name, over.name)} == {
                name: before[name] for name in (steady.name, over.name)
            }
            await crash(steady)
            await steady.running(one=0, web=1)
            for pod in every:
                assert (await types_of_events(pod))[EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED] == 0, pod.name
        await engine.end()


async def crash(pod: LivePod) -> None:
    """Kill the process of its container `web`."""
    known = (await pod.node.cri.container_status((await pod.instance("web")).id, verbose=True)).container
    assert known.pid > 1
    os.kill(known.pid, signal.SIGKILL)


async def limited(pods: Pods) -> LivePod:
    """A pod that forbids all restarts by a field that only the newer version knows."""
    document = pods.manifest("governed", shell("web"))
    document["metadata"]["annotations"] = {FORBIDS: "true"}
    pod = pods.know(document)
    await pod.apply(document)
    return pod
