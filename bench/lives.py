"""The number of history events in each part of a pod's life."""

from __future__ import annotations

import asyncio
import os
import signal

from bench.figures import Figure, Row
from bench.pods import pod
from bench.stage import Stage

_SETTLED_SECONDS = 1.0
"""The time after a change until all its events are in the history."""
_IDLE_SECONDS = 5.0


async def histories(at: Stage) -> tuple[Row, ...]:
    """Count the history events of one pod: a start, an idle time, a restart, and a restart after a back-off."""
    name = "bench-life"
    await at.engine.apply(pod(name))
    await at.engine.until_running(name)
    await asyncio.sleep(_SETTLED_SECONDS)
    started = await at.engine.history_length(name)
    await asyncio.sleep(_IDLE_SECONDS)
    idled = await at.engine.history_length(name)
    await _kill(at, name)
    await at.engine.until_running(name, restarts=1)
    await asyncio.sleep(_SETTLED_SECONDS)
    restarted = await at.engine.history_length(name)
    await _kill(at, name)
    await at.engine.until_waiting(name, "CrashLoopBackOff")
    await at.engine.until_running(name, restarts=2)
    await asyncio.sleep(_SETTLED_SECONDS)
    backed_off = await at.engine.history_length(name)
    await at.engine.clear(name)
    return (
        _row("history of a one-container start", started, 17),
        _row(f"history of {_IDLE_SECONDS:g} s in which nothing changes", idled - started, 0),
        _row("history of an immediate restart", restarted - idled, 12),
        _row("history of a restart after a back-off", backed_off - restarted, 17),
    )


async def _kill(at: Stage, name: str) -> None:
    container = await at.engine.container_id(name)
    pid = (await at.cri.container_status(container, verbose=True)).container.pid
    if not pid:
        raise RuntimeError(f"the runtime does not say which process container {container} has")
    os.kill(pid, signal.SIGKILL)


def _row(what: str, events: int, aim: float) -> Row:
    return Row(what, Figure((events,), "events"), aim=aim)
