"""Many simulated pods through the whole engine: how long each phase takes, and its CPU and memory.

``python -m bench --only simulated --pods 2000``. The embedded runtime simulates containers with timers, so this
measures the engine and Temporal, not the starting of programs.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.figures import markdown
from bench.idle import resident_bytes
from bench.pods import simulated_pod
from bench.simulated_node import SimulatedNode, each, simulated_node, until
from bench.stage import NODE
from syncpod.cli.temporal.pod_apply import apply_pod
from syncpod.cli.temporal.updates import PATIENCE_SECONDS

CRASHING_EVERY = 5
"""The container of every fifth pod is killed in the runtime, not by the engine."""
_IDLE_SECONDS = 15.0


@dataclass(frozen=True)
class Phase:
    """One phase: its number of pods, its seconds, and the CPU seconds of each part."""

    what: str
    pods: int
    """0 = the phase acts on no pod."""
    seconds: float
    cpu: Mapping[str, float]


@dataclass
class Scale:
    """The measurements of one run."""

    pods: int
    phases: list[Phase] = field(default_factory=list)
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By part: resident bytes without pods, and with all of them running."""
    late: int = 0
    """How many applies the worker did not answer in time; their pods start nevertheless."""

    def __str__(self) -> str:
        """Return the two tables."""
        parts = list(self.memory)
        rows = [("", "seconds", "pods/s", *(f"CPU s, {part}" for part in parts))]
        for phase in self.phases:
            rate = f"{phase.pods / phase.seconds:.0f}" if phase.pods else ""
            rows.append((phase.what, f"{phase.seconds:.1f}", rate, *(f"{phase.cpu[part]:.1f}" for part in parts)))
        memory = [("", "empty", f"with {self.pods} pods", "per pod")]
        for part, (empty, full) in self.memory.items():
            memory.append((part, _mib(empty), _mib(full), f"{(full - empty) / self.pods / 1024:.1f} KiB"))
        tables = [markdown(rows), markdown(memory)]
        if self.late:
            tables.append(f"{self.late} applies were answered only after {PATIENCE_SECONDS:g} s")
        return "\n\n".join(tables)


async def simulated(pods: int) -> Scale:
    """Start a node, run that many pods through their lives, and clean up."""
    async with simulated_node() as node:
        crowd = _Crowd(pods, node)
        await crowd.live()
        return crowd.scale


class _Crowd:
    """The pods of one run."""

    def __init__(self, pods: int, node: SimulatedNode) -> None:
        self._names = [f"crowd-{number}" for number in range(pods)]
        self._node = node
        self.scale = Scale(pods)

    async def live(self) -> None:
        """Run all phases."""
        everybody, count = self._names, len(self._names)
        crashing = everybody[::CRASHING_EVERY]
        empty = self._memory()
        async with self._phase(f"{count} applied", count):
            await each(everybody, self._apply)
        async with self._phase("… until all run", count):
            await self._node.until_visible("PodReady = true", count)
        full = self._memory()
        self.scale.memory = {part: (empty[part], full[part]) for part in self._node.pids}
        async with self._phase("idle", 0):
            await asyncio.sleep(_IDLE_SECONDS)
        async with self._phase(f"{len(crashing)} crash and restart", len(crashing)):
            await self._crash(crashing)
            await self._until_running({1: len(crashing), 0: count - len(crashing)})
            await self._node.until_visible("PodReady = true", count)
        async with self._phase(f"{count} deleted", count):
            await each(everybody, self._node.engine.delete)
            await self._node.until_visible("ExecutionStatus = 'Running'", 0)
        left = len(await self._node.cri.list_pod_sandboxes())
        if left:
            raise RuntimeError(f"{left} sandboxes are left")

    async def _apply(self, name: str) -> None:
        applied = await apply_pod(self._node.client, simulated_pod(name), node=NODE, has_attributes=True)
        self.scale.late += bool(applied.silence)

    async def _crash(self, names: Sequence[str]) -> None:
        """Kill the containers of these pods, bypassing the engine."""
        wanted = set(names)
        ids = [one.id for one in await self._node.cri.list_containers() if one.labels[_POD_NAME] in wanted]
        await each(ids, lambda id_: self._node.cri.stop_container(id_, timeout_seconds=0))

    async def _until_running(self, wanted: Mapping[int, int]) -> None:
        """Wait until the runtime runs this many containers of each attempt number."""

        async def do() -> bool:
            listed = await self._node.cri.list_containers()
            return Counter(one.attempt for one in listed if one.state == "running") == wanted

        await until(do)

    @contextlib.asynccontextmanager
    async def _phase(self, what: str, pods: int) -> AsyncIterator[None]:
        sys.stderr.write(f"bench:   {what}\n")
        began, before = time.monotonic(), self._node.cpu()
        yield
        after = self._node.cpu()
        cpu = {part: after[part] - before[part] for part in self._node.pids}
        self.scale.phases.append(Phase(what, pods, time.monotonic() - began, cpu))

    def _memory(self) -> dict[str, int]:
        return {part: resident_bytes(pid) for part, pid in self._node.pids.items()}


_POD_NAME = "io.kubernetes.pod.name"


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
