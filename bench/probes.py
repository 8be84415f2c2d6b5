"""Many containers with three probes each on one node: CPU cost, punctuality of the probes, and history events.

``python -m bench --only probes --pods 500``. Each container has a startup and a liveness probe by exec, which the
simulated runtime answers, and a readiness probe by HTTP, whose times a server on loopback records.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from bench.figures import markdown
from bench.idle import resident_bytes
from bench.pods import simulated_pod
from bench.simulated_node import SimulatedNode, each, simulated_node
from bench.stage import NODE
from syncpod.cli.temporal.pod_apply import apply_pod

PERIODS = (0, 10, 1)
"""Probe periods in seconds, one row each; 0 = the same containers without probes."""
_SETTLED_SECONDS = 12.0
_WATCHED_SECONDS = 30.0


@dataclass(frozen=True)
class Watched:
    """The measurements of one period, while nothing changed."""

    period: int
    seconds: float
    cpu: Mapping[str, float]
    """CPU seconds by part."""
    memory: int
    """The worker's resident memory in bytes."""
    asked: int
    """The number of HTTP probes; as many liveness probes ran by exec."""
    late: tuple[float, ...]
    """How many seconds each HTTP probe was late, relative to the most punctual one of its container."""
    events: int
    """By how many events the histories of all pods grew."""


@dataclass
class ProbeCosts:
    """The rows of the table."""

    containers: int
    rows: list[Watched] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the table, with CPU in percent of one core."""
        parts = list(self.rows[0].cpu)
        late = ("late p50", "late p99")
        head = ("probes", *(f"CPU %, {part}" for part in parts), "probes/s", *late, "worker", "history events")
        rows: list[Sequence[str]] = [(f"{self.containers} containers", *head[1:])]
        for row in self.rows:
            shares = (f"{100 * row.cpu[part] / row.seconds:.1f}" for part in parts)
            what = f"3 each, every {row.period} s" if row.period else "none"
            rate = f"{2 * row.asked / row.seconds:.0f}" if row.period else ""
            percentiles = quantiles(row.late, n=100) if len(row.late) > 1 else []
            punctual = [f"{1000 * percentiles[at]:.1f} ms" if percentiles else "" for at in (49, 98)]
            rows.append((what, *shares, rate, *punctual, f"{row.memory / 2**20:.0f} MiB", str(row.events)))
        return markdown(rows)


async def probes(containers: int) -> ProbeCosts:
    """Start `containers` containers for each period in turn, and measure while nothing changes."""
    costs = ProbeCosts(containers)
    for period in PERIODS:
        async with simulated_node() as node:
            costs.rows.append(await _watch(node, containers, period))
    return costs


async def _watch(node: SimulatedNode, containers: int, period: int) -> Watched:
    names = [f"probed-{number}" for number in range(containers)]
    _say(f"{containers} containers, probes {f'every {period} s' if period else 'none'}")
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.answering"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        port = int(await server.stdout.readline())

        async def apply(name: str) -> None:
            await apply_pod(
                node.client, simulated_pod(name, _probes(name, period, port)), node=NODE, has_attributes=True
            )

        await each(names, apply)
        await node.until_visible("PodReady = true", containers)
        await asyncio.sleep(_SETTLED_SECONDS)
        before = await _history(node, names)
        began, cpu, at = asyncio.get_running_loop().time(), node.cpu(), time.monotonic()
        await asyncio.sleep(_WATCHED_SECONDS)
        after, seconds, ended = node.cpu(), time.monotonic() - at, asyncio.get_running_loop().time()
        memory = resident_bytes(node.pids["worker"])
        grown = await _history(node, names) - before
        said, _ = await server.communicate(b"")
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()
    times = [[float(word) for word in line.split()[1:]] for line in said.decode().splitlines()]
    within = [[moment for moment in asked if began <= moment <= ended] for asked in times]
    return Watched(
        period,
        seconds,
        {part: after[part] - cpu[part] for part in after},
        memory,
        sum(map(len, within)),
        tuple(late for asked in within for late in lateness(asked, period)),
        grown,
    )


def lateness(asked: Sequence[float], period: float) -> Iterable[float]:
    """Return the seconds by which each probe was late, relative to the most punctual one of its container.

    `asked` are the times of one container's probes, which should be whole periods apart.
    """
    if len(asked) < 2:
        return ()
    beyond = [moment - asked[0] - period * round((moment - asked[0]) / period) for moment in asked]
    return tuple(each - min(beyond) for each in beyond)


def _probes(name: str, period: int, port: int) -> dict[str, Any]:
    if not period:
        return {}
    command = {"exec": {"command": ["true"]}, "periodSeconds": period}
    return {
        "startupProbe": command,
        "livenessProbe": command,
        "readinessProbe": {
            "httpGet": {"host": "127.0.0.1", "port": port, "path": f"/{name}"},
            "periodSeconds": period,
        },
    }


async def _history(node: SimulatedNode, names: Iterable[str]) -> int:
    lengths: list[int] = []

    async def count(name: str) -> None:
        lengths.append(await node.engine.history_length(name))

    await each(names, count)
    return sum(lengths)


def _say(what: str) -> None:
    sys.stderr.write(f"bench:   {what}\n")
