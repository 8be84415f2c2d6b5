"""The real processes that are measured: a private containerd, a Temporal dev server, and a worker."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from bench.bare import BareNode
from bench.engine import Engine
from bench.watch import Watch
from syncpod.cri.client import CriClient
from syncpod.node.host import read_host
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from syncpod.translation.context import NodeContext
from tests.runtimes.bare import BareCri
from tests.runtimes.containerd import Containerd
from tests.runtimes.temporal import DevServer
from tests.worker.node_process import NodeProcess

NODE = "bench"


@dataclass(frozen=True)
class Stage:
    """Everything that a measurement needs."""

    runtime: Containerd
    server: DevServer
    worker: NodeProcess
    client: Client
    cri: CriClient
    watch: Watch
    bare: BareNode
    engine: Engine


def compiled(directory: Path) -> dict[str, str]:
    """Return the environment that makes Python store bytecode in `directory`, as if the program were installed."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(directory)}


async def bare_context(directory: Path, runtime: Containerd, cri: CriClient) -> NodeContext:
    """Return the context for which the configurations of the bare calls are made, with its files in `directory`."""
    return NodeContext(
        name="bare",
        state_dir=directory / "state",
        memory_dir=directory / "memory",
        log_dir=directory / "logs",
        cluster="bare",
        cgroup_parent=runtime.cgroup_parent,
        cgroup_driver=await cri.runtime_config(),
        host=read_host(),
    )


@contextlib.asynccontextmanager
async def stage(runtime_version: str) -> AsyncIterator[Stage]:
    """Run everything during the block. Raises `Missing` if the machine lacks a part."""
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="syncpod-bench-")))
        runtime = await asyncio.to_thread(Containerd.launch, runtime_version, gates=False)
        stack.push_async_callback(asyncio.to_thread, runtime.close)
        server = await asyncio.to_thread(DevServer.launch)
        stack.push_async_callback(asyncio.to_thread, server.close)
        quiet = ("--log-level", "warning")
        worker = NodeProcess.of(runtime, server, directory, *quiet, node=NODE, **compiled(directory / "bytecode"))
        stack.callback(worker.close)
        await worker.ready()
        stack.push_async_callback(worker.stop)
        client = await Client.connect(server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
        cri = await stack.enter_async_context(CriClient(runtime.endpoint))
        context = await bare_context(directory / "bare", runtime, cri)
        calls = await stack.enter_async_context(BareCri(runtime.endpoint))
        looks = await stack.enter_async_context(BareCri(runtime.endpoint))
        watch = await stack.enter_async_context(Watch(looks))
        yield Stage(runtime, server, worker, client, cri, watch, BareNode(calls, watch, context), Engine(client, NODE))
