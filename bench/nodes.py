"""Several nodes on one containerd and one Temporal server, which are measured in turn."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client, WorkflowHandle

from bench.pods import pod
from syncpod.messages.identity import node_task_queue, pod_workflow_id
from syncpod.pod import pod_to_wire
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from tests.agent.waiting import until_asked
from tests.runtimes.containerd import Containerd
from tests.runtimes.temporal import DevServer
from tests.worker.node_process import NodeProcess


@dataclass(frozen=True)
class Settings:
    """The settings of one node's worker."""

    arguments: Sequence[str] = ("--log-level", "warning")
    environment: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Nodes:
    """The workers, by node, and a client of their server."""

    client: Client
    workers: Mapping[str, NodeProcess]

    async def start(self, node: str, name: str) -> float:
        """Start a pod and wait until it is Running; return the seconds of the start, by the server's events."""
        handle = await self.client.start_workflow(
            "PodWorkflow",
            {"pod": pod_to_wire(pod(name))},
            id=pod_workflow_id("default", name),
            task_queue=node_task_queue(node),
        )
        await until_asked(lambda: _is_running(handle))
        events = (await handle.fetch_history()).events
        ends = [
            event.event_time.ToNanoseconds()
            for event in events
            if event.HasField("activity_task_completed_event_attributes")
        ]
        return (max(ends) - events[0].event_time.ToNanoseconds()) / 1e9

    async def delete(self, name: str) -> None:
        """Delete a pod at once, and wait until it is gone."""
        handle = self.client.get_workflow_handle(pod_workflow_id("default", name))
        await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
        await handle.result()


async def _is_running(handle: WorkflowHandle[object, object]) -> bool:
    return bool((await handle.query("pod"))["status"].get("phase") == "Running")


@contextlib.asynccontextmanager
async def nodes(runtime_version: str, settings: Mapping[str, Settings]) -> AsyncIterator[Nodes]:
    """Start a containerd, a server, and a node for each of the settings, and end them all after the block.

    Raises :class:`~tests.runtimes.require.Missing`.
    """
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="syncpod-bench-")))
        runtime = await asyncio.to_thread(Containerd.launch, runtime_version, gates=False)
        stack.push_async_callback(asyncio.to_thread, runtime.close)
        server = await asyncio.to_thread(DevServer.launch)
        stack.push_async_callback(asyncio.to_thread, server.close)
        workers: dict[str, NodeProcess] = {}
        for name, each in settings.items():
            (directory / name).mkdir()
            environment = dict(each.environment or {})
            node = NodeProcess.of(runtime, server, directory / name, *each.arguments, node=name, **environment)
            stack.callback(node.close)
            workers[name] = await node.ready()
        client = await Client.connect(server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
        yield Nodes(client, workers)
