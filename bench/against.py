"""``python -m bench --against kubelet``: a live kubelet, a node of ours, the bare CRI calls and a prototype, in turn.

The kubelet and the node each have a containerd of their own, both of the same version and both running all the time.
Each gets a manifest by a rename into its directory. All times come from the runtimes' own listings. The status reports
of the kubelet and of the node are read only to measure their delay. The bare calls and the prototype's go to the node's
containerd. The prototype (:mod:`.prototype`) has its own Temporal server, with the same settings as the node's.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.bare import BareNode, BarePod
from bench.engine import together
from bench.figures import Figure
from bench.idle import cpu_seconds
from bench.pods import main_containers, manifest, pod
from bench.prototype_process import Prototype, launched, plan_of
from bench.reports import Phase, kubelet_phase, node_phase, until_reported
from bench.stage import NODE, bare_context, compiled
from bench.watch import Condition, Watch
from qa.differential.kubelet import VERSION, Kubelet
from syncpod.cli.machine.dev_server import drop_costly_indexes
from syncpod.cri.client import CriClient
from syncpod.translation.names import POD_NAME_LABEL
from tests.runtimes.bare import BareCri
from tests.runtimes.containerd import Containerd
from tests.runtimes.leftovers import unmount_below
from tests.runtimes.temporal import DevServer
from tests.worker.node_process import NodeProcess

KUBELET: Final = "kubelet"
NODE_SIDE: Final = "syncpod"
BARE: Final = "bare calls"
DURABLE: Final = "durable floor"
CROWD: Final = 30
LARGE_CROWD: Final = 100
INIT_CONTAINERS: Final = 3
CHAIN: Final = 5
LONG_CHAIN: Final = 30
CONTAINERS: Final = 3
ROUNDS: Final[Mapping[str, int]] = {
    "one": 9,
    "report": 5,
    "inits": 5,
    "chain": 5,
    "long chain": 2,
    "containers": 9,
    "crowd": 3,
    "large crowd": 2,
}
"""The number of counted rounds of each work, after one round that is not counted."""
_PATIENCE: Final = 120.0
"""Seconds that a side may take for one work."""
_STOOD_SECONDS: Final = 3.0
"""A pause of the kubelet's loop that makes its times void. Normally it begins a pod every few milliseconds."""
_SETTLED_SECONDS: Final = 1.0
"""Seconds after a start or a stop in which its aftermath is processed; the CPU of that time is counted too."""

_numbers = itertools.count(1)

Samples = Mapping[str, Mapping[str, Sequence[float]]]
"""Samples of each quantity, by side."""


@dataclass
class Side(ABC):
    """One contestant, with the listings of its runtime and its processes."""

    name: str
    runtime: Containerd
    watch: Watch
    cri: CriClient
    pids: Sequence[int] = ()
    """The processes that do the work: the kubelet, or the worker and the Temporal server."""

    @abstractmethod
    def prepare(self, name: str, **shape: Any) -> None:
        """Prepare the parts of the pod whose preparation is not measured."""

    @abstractmethod
    async def start(self, name: str, **shape: Any) -> None:
        """Start a pod of this name."""

    @abstractmethod
    async def stop(self, name: str) -> None:
        """Stop that pod."""

    @abstractmethod
    async def restart(self, name: str) -> None:
        """Start the pod's ended container again; do nothing if this side does so by itself."""

    @abstractmethod
    async def clear(self, name: str) -> None:
        """Wait until this side has removed a stopped pod, and remove the rest."""

    def listed(self, name: str) -> str:
        """Return the pod's name in its runtime."""
        return name

    async def until(self, condition: Condition) -> float:
        """Return when a listing of its runtime met the condition. Raises TimeoutError."""
        return await self.watch.until(condition, patience=_PATIENCE)


@dataclass(kw_only=True)
class ByManifest(Side):
    """A kubelet or a node of ours, with a directory of manifests; a static pod's name ends with the node's."""

    manifests: Path
    phase: Phase
    removes: bool = True
    """Whether it removes an ended pod at once. A kubelet does so only minutes later."""

    def prepare(self, name: str, **shape: Any) -> None:
        """Do nothing: all work of this side is measured."""

    async def start(self, name: str, **shape: Any) -> None:
        """Write the manifest beside the directory, and rename it into it."""
        beside = self.manifests.parent / f".{name}.json"
        beside.write_text(json.dumps(manifest(name, **shape)))
        beside.rename(self.manifests / f"{name}.json")

    async def stop(self, name: str) -> None:
        """Remove the manifest."""
        (self.manifests / f"{name}.json").unlink()

    async def restart(self, name: str) -> None:
        """Do nothing: this side restarts its containers itself."""

    async def clear(self, name: str) -> None:
        """Wait until this side has removed the pod, if it does so at once."""
        if self.removes:
            await self.until(lambda listing: listing.gone(self.listed(name)))

    def listed(self, name: str) -> str:
        """Return the static pod's name."""
        return f"{name}-{NODE}"


class Prepared(Side):
    """A side that only makes CRI calls: directories and configurations of a pod are prepared before."""

    def __init__(
        self,
        name: str,
        runtime: Containerd,
        watch: Watch,
        cri: CriClient,
        *,
        node: BareNode,
        pids: Sequence[int] = (),
    ) -> None:
        """Have `node` prepare the pods."""
        super().__init__(name, runtime, watch, cri, pids)
        self._node = node
        self._made: dict[str, BarePod] = {}

    def prepare(self, name: str, **shape: Any) -> None:
        """Prepare everything that is not a CRI call."""
        self._made[name] = self._node.prepare(pod(name, **shape))


class Bare(Prepared):
    """The floor: only the CRI calls."""

    async def start(self, name: str, **shape: Any) -> None:
        """Start the prepared pod."""
        await self._node.start(self._made[name])

    async def restart(self, name: str) -> None:
        """Create and start the pod's container again, once its end is listed."""
        await self.until(lambda listing: bool(listing.exited(name)))
        await self._node.restart(self._made[name])

    async def stop(self, name: str) -> None:
        """Stop the pod."""
        await self._node.stop(self._made[name])

    async def clear(self, name: str) -> None:
        """Remove the pod from the runtime and from disk."""
        await self._node.clear(self._made.pop(name))


class Durable(Prepared):
    """The durable floor: a worker that makes the same calls through Temporal, and does nothing else."""

    def __init__(self, *runs_on: Any, prototype: Prototype, **prepared: Any) -> None:
        """Send commands to `prototype`."""
        super().__init__(DURABLE, *runs_on, **prepared)
        self._prototype = prototype

    async def start(self, name: str, **shape: Any) -> None:
        """Have the prototype start the prepared pod."""
        await self._prototype.start(name, plan_of(self._made[name]))

    async def restart(self, name: str) -> None:
        """Report the end of the pod's container to the prototype, once it is listed."""
        await self.until(lambda listing: bool(listing.exited(name)))
        await self._prototype.exited(name)

    async def stop(self, name: str) -> None:
        """Have the prototype stop the pod."""
        await self._prototype.stop(name)

    async def clear(self, name: str) -> None:
        """Wait until the prototype has removed the pod, and remove the pod's files."""
        await self.until(lambda listing: listing.gone(name))
        await asyncio.to_thread(self._node.clear_disk, self._made.pop(name))


@dataclass(frozen=True)
class Contest:
    """All sides."""

    kubelet: Side
    node: Side
    bare: Side
    durable: Side
    versions: str
    hindrance: Callable[[], str]
    """Returns why the times are void, after all is measured; "" = they are not."""

    @property
    def sides(self) -> tuple[Side, ...]:
        """In the order of their turns."""
        return self.kubelet, self.node, self.bare, self.durable


@contextlib.asynccontextmanager
async def contest(version: str) -> AsyncIterator[Contest]:
    """Start all sides with their runtimes and servers, and end them. Raises `Missing`."""
    async with contextlib.AsyncExitStack() as stack:
        top = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="syncpod-bench-", ignore_cleanup_errors=True))
        )
        await asyncio.to_thread(top.chmod, 0o755)

        async def runtime() -> tuple[Containerd, Watch, CriClient]:
            started = await asyncio.to_thread(Containerd.launch, version, gates=False)
            stack.push_async_callback(asyncio.to_thread, started.close)
            looks = await stack.enter_async_context(BareCri(started.endpoint))
            watch = await stack.enter_async_context(Watch(looks))
            return started, watch, await stack.enter_async_context(CriClient(started.endpoint))

        theirs, ours = await runtime(), await runtime()
        kubelet = Kubelet(top / "kubelet", endpoint=theirs[0].endpoint, node=NODE, cgroup_root=theirs[0].cgroup_parent)
        stack.callback(kubelet.close)

        async def temporal() -> DevServer:
            started = await asyncio.to_thread(DevServer.launch)
            stack.push_async_callback(asyncio.to_thread, started.close)
            await asyncio.to_thread(drop_costly_indexes, started.db)  # as `syncpod up` does
            return started

        server, second_server = await temporal(), await temporal()
        home = top / "node"
        (home / "manifests").mkdir(parents=True)
        flags = ("--log-level", "warning", "--manifests", str(home / "manifests"))
        bytecode = compiled(top / "bytecode")
        more = {"SYNCPOD_CAPACITY": "pods=500", **bytecode}
        worker = NodeProcess.of(ours[0], server, home, *flags, node=NODE, **more)
        stack.callback(unmount_below, home)
        stack.callback(worker.close)
        await kubelet.ready()
        await worker.ready()
        stack.push_async_callback(worker.stop)
        calls = await stack.enter_async_context(BareCri(ours[0].endpoint))
        bare = BareNode(calls, ours[1], await bare_context(top / "bare", ours[0], ours[2]))
        prototype = await stack.enter_async_context(
            launched(ours[0].endpoint, second_server.address, os.environ | bytecode)
        )
        yield Contest(
            ByManifest(
                KUBELET,
                *theirs,
                pids=(kubelet.pid,),
                manifests=kubelet.manifests,
                phase=partial(kubelet_phase, kubelet),
                removes=False,
            ),
            ByManifest(
                NODE_SIDE,
                *ours,
                pids=(worker.pid, server.pid),
                manifests=home / "manifests",
                phase=partial(node_phase, worker.state_dir),
            ),
            Bare(BARE, *ours, node=bare),
            Durable(*ours, node=bare, pids=(prototype.pid, second_server.pid), prototype=prototype),
            f"kubelet {VERSION}, containerd {ours[0].version}",
            partial(_hindrance_of, kubelet),
        )


def _hindrance_of(kubelet: Kubelet) -> str:
    kubelet.read_log()
    return hindrance(kubelet.taken_up)


def hindrance(taken_up: Mapping[str, float]) -> str:
    """Return the sentence that the kubelet's loop paused within a crowd, so that its times are void; "" = it did not.

    `taken_up` has the second at which the loop began each pod, by the pod's name. In one run, the kubelet waited for a
    name server.
    """
    crowds: defaultdict[str, list[float]] = defaultdict(list)
    for name, at in taken_up.items():
        crowds[name.removesuffix(f"-{NODE}").rpartition("-")[0]].append(at)
    for crowd, times in crowds.items():
        pause = max((after - before for before, after in itertools.pairwise(sorted(times))), default=0.0)
        if pause > _STOOD_SECONDS and len(times) >= CROWD:
            return f"{crowd}: the kubelet's loop stood for {pause:.1f} s, so its times say nothing"
    return ""


# --- the works ------------------------------------------------------------------------------------------------------


async def _one(side: Side, name: str) -> Mapping[str, float]:
    """Start one pod (CNI), kill its container's process, and stop it."""
    times, listed = await _started(side, [name], host_network=False), side.listed(name)
    (running,) = await side.cri.list_containers(labels={POD_NAME_LABEL: listed})
    pid = (await side.cri.container_status(running.id, verbose=True)).container.pid
    if not pid:
        raise RuntimeError(f"the runtime does not say which process container {running.id} has")
    os.kill(pid, signal.SIGKILL)
    killed = time.perf_counter()
    _, again = await asyncio.gather(
        side.restart(name), side.until(lambda listing: listing.running(listed) not in ("", running.id))
    )
    stopped = await _stopped(side, [name])
    return {"start": times["start"], "restart": again - killed, "stop": stopped["stop"]}


async def _reported(side: Side, name: str) -> Mapping[str, float]:
    """Start one pod (CNI), and measure how much later than the runtime's listing its side reports it as Running."""
    if not isinstance(side, ByManifest):
        return {}
    listed = side.listed(name)
    _, running, reported = await asyncio.gather(
        side.start(name, host_network=False),
        side.until(lambda listing: bool(listing.running(listed))),
        until_reported(side.phase, listed, patience=_PATIENCE),
    )
    await _stopped(side, [name])
    return {"report": reported - running}


async def _shaped(side: Side, name: str, *, what: str, **shape: Any) -> Mapping[str, float]:
    """Start a pod with several containers (CNI)."""
    times = await _started(side, [name], host_network=False, **shape)
    await _stopped(side, [name])
    return {what: times["start"]}


async def _large_crowd(side: Side, name: str) -> Mapping[str, float]:
    """Start and stop LARGE_CROWD pods at once (host network)."""
    names = [f"{name}-{number}" for number in range(LARGE_CROWD)]
    started = await _started(side, names, host_network=True)
    stopped = await _stopped(side, names)
    return {"start-large": started["start"], "stop-large": stopped["stop"]}


async def _crowd(side: Side, name: str) -> Mapping[str, float]:
    """Start and stop CROWD pods at once (host network), and measure their CPU and memory."""
    names = [f"{name}-{number}" for number in range(CROWD)]
    started = await _started(side, names, host_network=True)
    memory = sum(map(proportional_bytes, side.pids)) / 2**20
    stopped = await _stopped(side, names)
    times = {"start-crowd": started["start"], "stop-crowd": stopped["stop"]}
    if not side.pids:
        return times
    costs = {"cpu-start": started["cpu"] / CROWD, "cpu-stop": stopped["cpu"] / CROWD, "memory": memory}
    return times | costs


async def _started(side: Side, names: Sequence[str], *, containers: int = 1, **shape: Any) -> Mapping[str, float]:
    listed, mains = [side.listed(name) for name in names], main_containers(containers)
    shape["containers"] = containers
    for name in names:
        side.prepare(name, **shape)
    used, began = cpu_seconds(side.pids), time.perf_counter()
    _, running = await asyncio.gather(
        together(side.start(name, **shape) for name in names),
        side.until(lambda listing: all(listing.running(name, main) for name in listed for main in mains)),
    )
    await asyncio.sleep(_SETTLED_SECONDS)
    return {"start": running - began, "cpu": cpu_seconds(side.pids) - used}


async def _stopped(side: Side, names: Sequence[str]) -> Mapping[str, float]:
    listed = [side.listed(name) for name in names]
    used, began = cpu_seconds(side.pids), time.perf_counter()
    _, stopped = await asyncio.gather(
        together(side.stop(name) for name in names),
        side.until(lambda listing: all(listing.stopped(name) for name in listed)),
    )
    await together(side.clear(name) for name in names)
    await asyncio.sleep(_SETTLED_SECONDS)
    return {"stop": stopped - began, "cpu": cpu_seconds(side.pids) - used}


WORKS: Final[Mapping[str, Callable[[Side, str], Awaitable[Mapping[str, float]]]]] = {
    "one": _one,
    "report": _reported,
    "inits": partial(_shaped, what="inits", init_containers=INIT_CONTAINERS),
    "chain": partial(_shaped, what="chain", init_containers=CHAIN),
    "long chain": partial(_shaped, what="long-chain", init_containers=LONG_CHAIN),
    "containers": partial(_shaped, what="containers", containers=CONTAINERS),
    "crowd": _crowd,
    "large crowd": _large_crowd,
}


async def measure(at: Contest, rounds: Mapping[str, int], say: Callable[[str], None]) -> Samples:
    """Have each side do each work in turn; return the samples. Raises TimeoutError."""
    samples: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for what, work in WORKS.items():
        for number in range(1 + rounds[what]):
            say(f"{what}, {f'{number} of {rounds[what]}' if number else 'not counted'}")
            for side in at.sides:
                try:
                    measured = await work(side, f"{what.replace(' ', '-')}-{next(_numbers)}")
                except TimeoutError as late:
                    raise TimeoutError(f"{side.name} has not done it in {_PATIENCE:.0f} s: {what}") from late
                for quantity, value in measured.items() if number else ():
                    samples[quantity][side.name].append(value)
    return samples


# --- the table ------------------------------------------------------------------------------------------------------

_ROWS: Final = (
    ("start", "one pod (CNI), from its manifest to running"),
    ("report", "one pod (CNI), from running to reported Running"),
    ("inits", f"{INIT_CONTAINERS} init containers, then main (CNI)"),
    ("chain", f"{CHAIN} init containers, then main (CNI)"),
    ("long-chain", f"{LONG_CHAIN} init containers, then main (CNI)"),
    ("containers", f"one pod with {CONTAINERS} containers (CNI)"),
    ("restart", "from the death of a process to its restart"),
    ("start-crowd", f"{CROWD} pods at once (host network)"),
    ("start-large", f"{LARGE_CROWD} pods at once (host network)"),
    ("stop", "one pod (CNI), from the removal of its manifest to nothing running"),
    ("stop-crowd", f"{CROWD} pods at once, stopped"),
    ("stop-large", f"{LARGE_CROWD} pods at once, stopped"),
    ("cpu-start", "CPU of each pod of a crowd, started"),
    ("cpu-stop", "CPU of each pod of a crowd, stopped"),
    ("memory", f"memory (PSS) with {CROWD} pods"),
)
_IN_MEBIBYTES: Final = "memory"
_NO_RATIO: Final = "report"
"""A row without ratios: a difference of two times that may be zero."""


def rows(samples: Samples) -> list[tuple[str, ...]]:
    """Return the table's rows, with headings: medians, ranges, and the node's ratios to the other sides."""
    sides, others = (KUBELET, NODE_SIDE, BARE, DURABLE), (KUBELET, BARE, DURABLE)
    found: list[tuple[str, ...]] = [("", *sides, *(f"to the {other}" for other in others))]
    for quantity, what in _ROWS:
        figures = {side: _figure(quantity, values) for side, values in samples[quantity].items()}
        node = figures[NODE_SIDE].median
        cells = (str(figures[side]) if side in figures else "" for side in sides)
        compared = figures if quantity != _NO_RATIO else {}
        ratios = (f"{node / figures[other].median:.2f} ×" if other in compared else "" for other in others)
        found.append((what, *cells, *ratios))
    return found


def _figure(quantity: str, values: Sequence[float]) -> Figure:
    if quantity == _IN_MEBIBYTES:
        return Figure(tuple(values), "MiB")
    return Figure(tuple(1000 * value for value in values), "ms")


def proportional_bytes(pid: int) -> int:
    """Return a process's share of memory (PSS)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
