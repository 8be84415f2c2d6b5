"""Runs the engine and the bare calls in turn on one machine and runtime, and compares their times.

The first pair of runs is not counted.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from bench.bare import BarePod
from bench.engine import together
from bench.figures import Figure, Row
from bench.pods import pod
from bench.stage import Stage
from syncpod.pod import Pod
from syncpod.translation.names import POD_NAME_LABEL

Times = Mapping[str, float]
"""Seconds, by the name of the time."""
Side = Callable[[Stage, str], Awaitable[Times]]
"""One run of one side. The text is unique to the run, and a prefix of its pods' names."""

CROWD = 30
CHAIN = 5

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Timed:
    """One row of a race: a time of the engine, and the bare time to compare it with."""

    what: str
    engine: str
    bare: str
    aim: float | None = None


@dataclass(frozen=True)
class Race:
    """Two sides to run in turn, and the rows that their times make."""

    engine: Side
    bare: Side
    rows: tuple[Timed, ...]
    share: int = 1
    """Divides the number of pairs for a slow race; at least three are run."""


async def run(race: Race, at: Stage, pairs: int) -> tuple[Row, ...]:
    """Run the race and return its rows. Raises TimeoutError, and the errors of either side."""
    engine: dict[str, list[float]] = defaultdict(list)
    bare: dict[str, list[float]] = defaultdict(list)
    for number in range(1 + max(min(3, pairs), pairs // race.share)):
        for side, times in ((race.engine, engine), (race.bare, bare)):
            measured = await side(at, f"bench-{next(_numbers)}")
            if number:
                for name, seconds in measured.items():
                    times[name].append(1000 * seconds)
    return tuple(
        Row(row.what, Figure(tuple(engine[row.engine])), Figure(tuple(bare[row.bare])), row.aim) for row in race.rows
    )


# --- starts -----------------------------------------------------------------------------------------------------------


def starts(
    what: str, *, pods: int = 1, host_network: bool, init_containers: int = 0, aim: float | None, share: int = 1
) -> Race:
    """Return the race of starting some pods at once, until the runtime lists all their containers as running."""

    def made(name: str) -> tuple[Pod, ...]:
        names = [f"{name}-{number}" for number in range(pods)]
        return tuple(pod(each, host_network=host_network, init_containers=init_containers) for each in names)

    async def engine(at: Stage, name: str) -> Times:
        wanted = made(name)
        names = [each.metadata.name for each in wanted]
        began = time.perf_counter()
        _, ended = await asyncio.gather(
            together(at.engine.apply(each) for each in wanted),
            at.watch.until(lambda listing: all(listing.running(each) for each in names)),
        )
        said = max([await at.engine.until_running(each) for each in names])
        await at.engine.clear(*names)
        return {"running": ended - began, "said": said - began}

    async def bare(at: Stage, name: str) -> Times:
        prepared = [at.bare.prepare(each) for each in made(name)]
        names = [each.pod.metadata.name for each in prepared]
        began = time.perf_counter()
        _, ended = await asyncio.gather(
            together(at.bare.start(each) for each in prepared),
            at.watch.until(lambda listing: all(listing.running(each) for each in names)),
        )
        await together(at.bare.clear(each) for each in prepared)
        return {"running": ended - began}

    rows = (
        Timed(f"{what}: running", "running", "running", aim),
        Timed(f"{what}: Running in the pod's status", "said", "running"),
    )
    return Race(engine, bare, rows, share)


# --- stop -------------------------------------------------------------------------------------------------------------


def stop() -> Race:
    """Return the race of deleting one pod whose container ends on SIGTERM at once."""

    async def timed(at: Stage, name: str, work: Callable[[], Awaitable[None]]) -> dict[str, float]:
        began = time.perf_counter()
        _, stopped, gone = await asyncio.gather(
            work(),
            at.watch.until(lambda listing: listing.stopped(name)),
            at.watch.until(lambda listing: listing.gone(name)),
        )
        return {"stopped": stopped - began, "gone": gone - began}

    async def engine(at: Stage, name: str) -> Times:
        await at.engine.apply(pod(name, host_network=False))
        await at.engine.until_running(name)
        times = await timed(at, name, lambda: at.engine.delete(name))
        await at.engine.until_ended(name)
        return times

    async def bare(at: Stage, name: str) -> Times:
        made = await _started(at, name, host_network=False)

        async def work() -> None:
            await at.bare.stop(made)
            await at.bare.remove(made)

        times = await timed(at, name, work)
        at.bare.clear_disk(made)
        return times

    rows = (
        Timed("stop (CNI): nothing runs", "stopped", "stopped"),
        Timed("stop (CNI): nothing is left", "gone", "gone"),
    )
    return Race(engine, bare, rows)


# --- restart ----------------------------------------------------------------------------------------------------------


def restart() -> Race:
    """Return the race of restarting a container whose process is killed, until it runs as restart 1."""

    async def engine(at: Stage, name: str) -> Times:
        await at.engine.apply(pod(name))
        await at.engine.until_running(name)
        killed, dead = await _kill(at, name)
        exited, again = await asyncio.gather(
            at.watch.until(lambda listing: bool(listing.exited(name))),
            at.watch.until(lambda listing: listing.running(name) not in ("", dead)),
        )
        await at.engine.clear(name)
        return {"visible": again - exited, "dead": again - killed}

    async def bare(at: Stage, name: str) -> Times:
        made = await _started(at, name)
        killed, dead = await _kill(at, name)
        exited = await at.watch.until(lambda listing: bool(listing.exited(name)))
        _, again = await asyncio.gather(
            at.bare.restart(made), at.watch.until(lambda listing: listing.running(name) not in ("", dead))
        )
        await at.bare.clear(made)
        return {"visible": again - exited, "dead": again - killed}

    rows = (
        Timed("restart: from when CRI shows the exit until running again", "visible", "visible", 1.5),
        Timed("restart: from the death of the process until running again", "dead", "dead"),
    )
    return Race(engine, bare, rows)


async def _started(at: Stage, name: str, *, host_network: bool = True) -> BarePod:
    made = at.bare.prepare(pod(name, host_network=host_network))
    await at.bare.start(made)
    await at.watch.until(lambda listing: bool(listing.running(name)))
    return made


async def _kill(at: Stage, name: str) -> tuple[float, str]:
    """SIGKILL the first process of the pod's container; return the moment, and the container's id."""
    (running,) = await at.cri.list_containers(labels={POD_NAME_LABEL: name})
    pid = (await at.cri.container_status(running.id, verbose=True)).container.pid
    if not pid:
        raise RuntimeError(f"the runtime does not say which process container {running.id} has")
    os.kill(pid, signal.SIGKILL)
    return time.perf_counter(), running.id


RACES: Mapping[str, Race] = {
    "start-host": starts("start of one pod (host network)", host_network=True, aim=None),
    "start-cni": starts("start of one pod (CNI)", host_network=False, aim=1.25),
    "chain": starts(
        f"{CHAIN} init containers, then one (CNI)", host_network=False, init_containers=CHAIN, aim=1.3, share=2
    ),
    "crowd-host": starts(f"{CROWD} pods at once (host network)", pods=CROWD, host_network=True, aim=1.4, share=3),
    "crowd-cni": starts(f"{CROWD} pods at once (CNI)", pods=CROWD, host_network=False, aim=1.4, share=3),
    "stop": stop(),
    "restart": restart(),
}
