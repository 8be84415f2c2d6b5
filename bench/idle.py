"""The cost of idle pods: CPU of each process that maintains them, and memory of the worker."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path

from bench.engine import together
from bench.figures import Figure, Row
from bench.pods import pod
from bench.stage import Stage

PODS = 50
_SETTLED_SECONDS = 5.0
_WATCHED_SECONDS = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


async def idle(at: Stage) -> tuple[Row, ...]:
    """Run many idle pods for a while; return each part's share of a core, and the worker's memory."""
    names = [f"bench-idle-{number}" for number in range(PODS)]
    await together(at.engine.apply(pod(name)) for name in names)
    await together(at.engine.until_running(name) for name in names)
    await asyncio.sleep(_SETTLED_SECONDS)
    parts = {
        "worker and agent": [at.worker.pid],
        "Temporal server": [at.server.pid],
        "containerd": [at.runtime.pid],
        "its shims": [shim.pid for shim in at.runtime.shims],
    }
    began, before = time.monotonic(), {part: cpu_seconds(pids) for part, pids in parts.items()}
    await asyncio.sleep(_WATCHED_SECONDS)
    passed, after = time.monotonic() - began, {part: cpu_seconds(pids) for part, pids in parts.items()}
    memory = resident_bytes(at.worker.pid)
    await at.engine.clear(*names)
    shares = (
        Row(
            f"CPU of {PODS} idle pods: {part}",
            Figure((100 * (after[part] - before[part]) / passed,), "% of a core"),
            aim=2 if part == "worker and agent" else None,
        )
        for part in parts
    )
    return (*shares, Row(f"memory of the worker with {PODS} pods", Figure((memory / 2**20,), "MiB")))


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the user and system time of all threads of these processes so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
