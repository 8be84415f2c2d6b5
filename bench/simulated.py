"""Many simulated pods through the whole engine: how long each phase takes, and what it costs whom.

``python -m bench --only simulated --pods 2000``. The runtime is the embedded one with timers for processes, so what is
measured is the engine and Temporal, not the starting of programs.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.client import Client

from bench.engine import Engine
from bench.idle import cpu_seconds, resident_bytes
from bench.pods import simulated_pod
from bench.stage import NODE, compiled
from syncpod.cli.applying import apply_pod
from syncpod.cli.updating import PATIENCE_SECONDS
from syncpod.cri.client import CriClient
from syncpod.plugin import DATA_CONVERTER
from tests.runtimes.embedded import Embedded
from tests.runtimes.temporal import DevServer
from tests.worker.node_process import NodeProcess

AT_ONCE = 8
"""Pods that are applied at the same time, and deleted. More make each wait longer, and none sooner."""
CRASHING_EVERY = 5
"""Every fifth pod's container is killed behind the engine's back."""
_IDLE_SECONDS = 15.0
_LOOKS_EVERY = 0.5
_PATIENCE_SECONDS = 1800.0


@dataclass(frozen=True)
class Phase:
    """What was done to how many pods, in how many seconds, and the CPU seconds that each part spent on it."""

    what: str
    pods: int
    """0: nothing was done to any."""
    seconds: float
    cpu: Mapping[str, float]


@dataclass
class Scale:
    """What was measured of so many pods."""

    pods: int
    phases: list[Phase] = field(default_factory=list)
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By part: resident bytes without any pod, and with all of them running."""
    late: int = 0
    """How many applies the worker did not answer in time; their pods start all the same."""

    def __str__(self) -> str:
        """Give the two tables."""
        parts = list(self.memory)
        rows = [("", "seconds", "pods/s", *(f"CPU s, {part}" for part in parts))]
        for phase in self.phases:
            rate = f"{phase.pods / phase.seconds:.0f}" if phase.pods else ""
            rows.append((phase.what, f"{phase.seconds:.1f}", rate, *(f"{phase.cpu[part]:.1f}" for part in parts)))
        memory = [("", "empty", f"with {self.pods} pods", "per pod")]
        for part, (empty, full) in self.memory.items():
            memory.append((part, _mib(empty), _mib(full), f"{(full - empty) / self.pods / 1024:.1f} KiB"))
        tables = [_markdown(rows), _markdown(memory)]
        if self.late:
            tables.append(f"{self.late} applies were answered only after {PATIENCE_SECONDS:g} s")
        return "\n\n".join(tables)


async def simulated(pods: int) -> Scale:
    """Set a stage of its own, run that many pods through their lives, and clear it away."""
    async with _crowd(pods) as crowd:
        await crowd.live()
        return crowd.scale


class _Crowd:
    """The pods, and the parts that keep them."""

    def __init__(
        self, pods: int, runtime: Embedded, server: DevServer, worker: NodeProcess, client: Client, cri: CriClient
    ) -> None:
        self._names = [f"crowd-{number}" for number in range(pods)]
        self._pids = {"runtime": runtime.pid, "worker": worker.pid, "Temporal": server.pid}
        self._client = client
        self._cri = cri
        self._engine = Engine(client, NODE)
        self.scale = Scale(pods)

    async def live(self) -> None:
        """All phases of their lives."""
        everybody, count = self._names, len(self._names)
        crashing = everybody[::CRASHING_EVERY]
        empty = self._memory()
        async with self._phase(f"{count} applied", count):
            await _each(everybody, self._apply)
        async with self._phase("… until all run", count):
            await self._until_visible("PodReady = true", count)
        full = self._memory()
        self.scale.memory = {part: (empty[part], full[part]) for part in self._pids}
        async with self._phase("idle", 0):
            await asyncio.sleep(_IDLE_SECONDS)
        async with self._phase(f"{len(crashing)} crash and restart", len(crashing)):
            await self._crash(crashing)
            await self._until_running({1: len(crashing), 0: count - len(crashing)})
            await self._until_visible("PodReady = true", count)
        async with self._phase(f"{count} deleted", count):
            await _each(everybody, self._engine.delete)
            await self._until_visible("ExecutionStatus = 'Running'", 0)
        left = len(await self._cri.list_pod_sandboxes())
        if left:
            raise RuntimeError(f"{left} sandboxes are left")

    async def _apply(self, name: str) -> None:
        applied = await apply_pod(self._client, simulated_pod(name), node=NODE, has_attributes=True)
        self.scale.late += applied.node_is_away

    async def _crash(self, names: Sequence[str]) -> None:
        """Kill the containers of these pods, as somebody does who is not the engine."""
        wanted = set(names)
        ids = [each.id for each in await self._cri.list_containers() if each.labels[_POD_NAME] in wanted]
        await _each(ids, lambda id_: self._cri.stop_container(id_, timeout_seconds=0))

    async def _until_running(self, wanted: Mapping[int, int]) -> None:
        """Wait until the runtime runs so many containers of each attempt."""

        async def do() -> bool:
            listed = await self._cri.list_containers()
            return Counter(each.attempt for each in listed if each.state == "running") == wanted

        await _until(do)

    async def _until_visible(self, condition: str, count: int) -> None:
        """Wait until Temporal counts so many of the node's pods."""

        async def are() -> bool:
            query = f"NodeName = '{NODE}' AND ExecutionStatus = 'Running' AND {condition}"
            return (await self._client.count_workflows(query)).count == count

        await _until(are)

    @contextlib.asynccontextmanager
    async def _phase(self, what: str, pods: int) -> AsyncIterator[None]:
        sys.stderr.write(f"bench:   {what}\n")
        began, before = time.monotonic(), self._cpu()
        yield
        after = self._cpu()
        cpu = {part: after[part] - before[part] for part in self._pids}
        self.scale.phases.append(Phase(what, pods, time.monotonic() - began, cpu))

    def _cpu(self) -> dict[str, float]:
        return {part: cpu_seconds([pid]) for part, pid in self._pids.items()}

    def _memory(self) -> dict[str, int]:
        return {part: resident_bytes(pid) for part, pid in self._pids.items()}


_POD_NAME = "io.kubernetes.pod.name"


@contextlib.asynccontextmanager
async def _crowd(pods: int) -> AsyncIterator[_Crowd]:
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="syncpod-bench-")))
        runtime = await asyncio.to_thread(Embedded.launch, "--simulate")
        stack.push_async_callback(asyncio.to_thread, runtime.close)
        server = await asyncio.to_thread(DevServer.launch)
        stack.push_async_callback(asyncio.to_thread, server.close)
        worker = NodeProcess(
            directory,
            *("--no-pod-cgroups", "--log-level", "warning"),
            runtime=runtime.endpoint,
            temporal=server.address,
            node=NODE,
            **compiled(directory / "bytecode"),
        )
        stack.callback(worker.close)
        stack.push(lambda error, *_: _say_end_of(worker.log) if error else None)
        await worker.ready()
        stack.push_async_callback(worker.stop)
        client = await Client.connect(server.address, data_converter=DATA_CONVERTER)
        cri = await stack.enter_async_context(CriClient(runtime.endpoint))
        yield _Crowd(pods, runtime, server, worker, client, cri)


def _say_end_of(log: Path) -> None:
    sys.stderr.write("".join(log.read_text().splitlines(keepends=True)[-20:]))


async def _each(names: Iterable[str], work: Callable[[str], Awaitable[object]]) -> None:
    """Do it for each name, so many at once; raises the first error."""
    waiting = iter(names)

    async def one_after_another() -> None:
        for name in waiting:
            await work(name)

    await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not await condition():  # noqa: ASYNC110  # a question is all there is
            await asyncio.sleep(_LOOKS_EVERY)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join((lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]))


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
