"""A node with simulated containers: the embedded runtime, a Temporal dev server, and a worker."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from temporalio.client import Client

from bench.engine import Engine
from bench.idle import cpu_seconds
from bench.stage import NODE, compiled
from syncpod.cli.machine.dev_server import drop_costly_indexes
from syncpod.cri.client import CriClient
from syncpod.signing.keys import make_signing_keys
from syncpod.temporal.plugin import connect
from tests.runtimes.embedded import Embedded
from tests.runtimes.temporal import DevServer
from tests.worker.node_process import NodeProcess

AT_ONCE = 8
"""How many pods are applied or deleted at the same time. More would only make each one wait longer."""
_LOOKS_EVERY = 0.5
_PATIENCE_SECONDS = 1800.0

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class SimulatedNode:
    """The parts of the node."""

    client: Client
    cri: CriClient
    engine: Engine
    pids: dict[str, int]
    """Process ids by part: runtime, worker, Temporal."""
    environment: dict[str, str]
    """The environment with which `syncpod` commands find the node."""

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds so far of each part."""
        return {part: cpu_seconds([pid]) for part, pid in self.pids.items()}

    async def until_visible(self, condition: str, count: int) -> None:
        """Wait until `count` of the node's running workflows meet a condition of Temporal's visibility."""

        async def are() -> bool:
            return await self.visible(condition) == count

        await until(are)

    async def visible(self, condition: str = "") -> int:
        """Return how many of the node's running workflows meet a condition of Temporal's visibility; "" = all."""
        query = f"NodeName = '{NODE}' AND ExecutionStatus = 'Running'{condition and f' AND {condition}'}"
        return (await self.client.count_workflows(query)).count


@contextlib.asynccontextmanager
async def simulated_node(*, signed: bool = False) -> AsyncIterator[SimulatedNode]:
    """Run the node during the block. If the block fails, print the end of the worker's log.

    With `signed`, the node accepts only signed commands, and the client signs.
    """
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="syncpod-bench-")))
        runtime = await asyncio.to_thread(Embedded.launch, "--simulate")
        stack.push_async_callback(asyncio.to_thread, runtime.close)
        server = await asyncio.to_thread(DevServer.launch)
        stack.push_async_callback(asyncio.to_thread, server.close)
        await asyncio.to_thread(drop_costly_indexes, server.db)  # as `syncpod up` does
        worker = NodeProcess(
            directory,
            *("--no-pod-cgroups", "--log-level", "warning", *(("--signed",) if signed else ())),
            runtime=runtime.endpoint,
            temporal=server.address,
            node=NODE,
            **compiled(directory / "bytecode"),
        )
        stack.callback(worker.close)
        stack.push(lambda error, *_: _say_end_of(worker.log) if error else None)
        await worker.ready()
        stack.push_async_callback(worker.stop)
        keys = make_signing_keys(worker.state_dir) if signed else None
        client = await connect(settings={"target_host": server.address, "namespace": "default"}, keys=keys)
        cri = await stack.enter_async_context(CriClient(runtime.endpoint))
        pids = {"runtime": runtime.pid, "worker": worker.pid, "Temporal": server.pid}
        environment = {"SYNCPOD_STATE_DIR": str(worker.state_dir), "TEMPORAL_ADDRESS": server.address}
        yield SimulatedNode(client, cri, Engine(client, NODE), pids, environment)


async def each(items: Iterable[_Item], work: Callable[[_Item], Awaitable[object]], *, at_once: int = AT_ONCE) -> None:
    """Call `work` for each item, at most `at_once` at a time. Raises the first error."""
    waiting = iter(items)

    async def one_after_another() -> None:
        for item in waiting:
            await work(item)

    await asyncio.gather(*(one_after_another() for _ in range(at_once)))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Poll until the condition holds. Raises TimeoutError."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not await condition():  # noqa: ASYNC110  # there is nothing to wait on
            await asyncio.sleep(_LOOKS_EVERY)


def _say_end_of(log: Path) -> None:
    sys.stderr.write("".join(log.read_text().splitlines(keepends=True)[-20:]))
