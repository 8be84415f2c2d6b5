"""``python -m bench.loaded``: a node with simulated pods on a busy machine, for minutes.

While busy processes run, pods are read, labelled, deleted and applied again. The output shows how soon pods answer, how
often a pod or the node is reported as away although its worker lives, and how many workflow tasks time out or fail. The
machine should run nothing else: ``python -m bench.loaded --minutes 30 --load 40``.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from statistics import quantiles

from temporalio.service import RPCError

from bench import machine
from bench.figures import markdown
from bench.machine import busy
from bench.pods import simulated_pod
from bench.simulated_node import SimulatedNode, each, simulated_node
from bench.stage import NODE
from bench.tasks import Tasks, counted
from syncpod.cli.failure import Failure
from syncpod.cli.temporal.nodes import read_node
from syncpod.cli.temporal.pod_apply import apply_pod
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.messages.identity import node_task_queue
from syncpod.pod import pod_to_wire
from tests.runtimes.require import Missing

AIM_SECONDS = 10.0
"""The time within which each pod should answer."""
_WEDGED_SECONDS = 120.0
"""The time after which a pod that has not answered is not read again."""
_NODE_EVERY = 5.0
_LABEL_EVERY = 1.0
_REPLACE_EVERY = 5.0
_TELL_EVERY = 60.0


@dataclass
class Watched:
    """The results of a run."""

    pods: int
    answers: list[float] = field(default_factory=list)
    """Seconds from the first read of a pod until it answered, perhaps after repeated reads."""
    seen: Counter[str] = field(default_factory=Counter)
    tasks: Tasks = field(default_factory=Tasks)

    def counting(self, work: Callable[[], Coroutine[None, None, None]]) -> Callable[[], Coroutine[None, None, None]]:
        """Return the same work, but a failed call to the Temporal server is counted and does not end the run."""

        async def counted_work() -> None:
            try:
                await work()
            except RPCError as error:
                self.seen["calls that the server did not answer"] += 1
                sys.stderr.write(f"bench: {error.status.name}: {error}\n")

        return counted_work

    async def tell(self) -> None:
        """Write the results so far to stderr."""
        seen = ", ".join(f"{what}: {count}" for what, count in self.seen.items())
        sys.stderr.write(f"bench: {len(self.answers)} reads; {seen}\n")

    def __str__(self) -> str:
        """Return the table."""
        percentiles = quantiles(self.answers, n=100) if len(self.answers) > 1 else [0.0] * 99
        late = sum(1 for seconds in self.answers if seconds > AIM_SECONDS)
        rows = [
            ("", "count"),
            ("pods read", str(len(self.answers))),
            ("seconds until one answered: median, p99, longest", _seconds(percentiles, self.answers)),
            (f"of these longer than {AIM_SECONDS:g} s", str(late)),
            *((what, str(self.seen[what])) for what in _SEEN),
            ("workflow tasks", str(self.tasks.workflow)),
            ("of these timed out", str(self.tasks.timed_out)),
            ("of these failed", str(self.tasks.failed)),
        ]
        return markdown(rows)


_SEEN = (
    *("pod did not answer in time, and was called busy", "pod was called away", "pod was not there", "pod was wedged"),
    "pod not read, since it was still being asked",
    *("node read", "node was called busy", "node was called dead"),
    *("labels sent", "pods replaced", "changes not answered in time", "calls that the server did not answer"),
)


def _seconds(percentiles: Sequence[float], answers: Sequence[float]) -> str:
    return f"{percentiles[49]:.2f}, {percentiles[98]:.2f}, {max(answers, default=0.0):.2f}"


async def loaded(pods: int, minutes: float, load: int, reads: float) -> Watched:
    """Run pods for some minutes, and read some of them each second."""
    watched, names = Watched(pods), [f"loaded-{number}" for number in range(pods)]
    async with simulated_node() as node:
        await each(names, lambda name: _apply(node, name))
        await node.until_visible("PodReady = true", pods)
        with busy(load):
            await _for(
                60 * minutes,
                (1 / reads, watched.counting(_Reads(node, names, watched).read)),
                (_NODE_EVERY, watched.counting(lambda: _read_node(node, watched))),
                (_LABEL_EVERY, watched.counting(_Labels(node, names, watched).send)),
                (_REPLACE_EVERY, watched.counting(_Replacements(node, names, watched).replace)),
                (_TELL_EVERY, watched.tell),
            )
        async for run in node.client.list_workflows(f"TaskQueue = '{node_task_queue(NODE)}'"):
            history = await node.client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
            watched.tasks += counted(history.events)
    return watched


async def _for(seconds: float, *works: tuple[float, Callable[[], Coroutine[None, None, None]]]) -> None:
    """Begin each work once in its interval, whether or not the previous one has ended; await all at the end.

    `works` are intervals in seconds with their work. If this process is delayed, the work begins as soon as possible.
    Work that has not begun after `seconds` is left out.
    """
    starts, begun = time.monotonic(), list[asyncio.Task[None]]()

    async def keep_beginning(pause: float, work: Callable[[], Coroutine[None, None, None]]) -> None:
        for number in itertools.count():
            await asyncio.sleep(max(0.0, starts + number * pause - time.monotonic()))
            if time.monotonic() - starts >= seconds:
                return
            begun.append(asyncio.create_task(work()))

    await asyncio.gather(*(keep_beginning(*work) for work in works))
    await asyncio.gather(*begun)


async def _apply(node: SimulatedNode, name: str) -> None:
    await apply_pod(node.client, simulated_pod(name), node=NODE, has_attributes=True)


class _Reads:
    """Reads one pod after the other, as `get pod` does, and again until it answers."""

    def __init__(self, node: SimulatedNode, names: Sequence[str], watched: Watched) -> None:
        self._node, self._names, self._watched = node, itertools.cycle(names), watched
        self._asked: set[str] = set()
        """Pods that are being read."""

    async def read(self) -> None:
        name = next(self._names)
        if name in self._asked:
            self._watched.seen["pod not read, since it was still being asked"] += 1
            return
        self._asked.add(name)
        try:
            await self._read(name)
        finally:
            self._asked.remove(name)

    async def _read(self, name: str) -> None:
        began = time.monotonic()
        fetched = await TemporalPods(self._node.client).read("default", name)
        if fetched is not None and not fetched.current:
            what = "pod did not answer in time, and was called busy" if fetched.lives else "pod was called away"
            self._watched.seen[what] += 1
        while fetched is not None and not fetched.current:
            if fetched.stuck or time.monotonic() - began > _WEDGED_SECONDS:
                self._watched.seen["pod was wedged"] += 1
                break
            fetched = await TemporalPods(self._node.client).read("default", name)
        self._watched.answers.append(time.monotonic() - began)
        if fetched is None:
            self._watched.seen["pod was not there"] += 1


async def _read_node(node: SimulatedNode, watched: Watched) -> None:
    fetched = await read_node(node.client, NODE)
    watched.seen["node read"] += 1
    if fetched is None or not fetched.lives:
        watched.seen["node was called dead"] += 1
    elif not fetched.current:
        watched.seen["node was called busy"] += 1


class _Labels:
    """Gives one pod after the other another label, by signal."""

    def __init__(self, node: SimulatedNode, names: Sequence[str], watched: Watched) -> None:
        self._node, self._names, self._watched, self._number = node, itertools.cycle(names), watched, itertools.count()

    async def send(self) -> None:
        name = next(self._names)
        document = pod_to_wire(simulated_pod(name))
        document["metadata"]["labels"] = {"number": str(next(self._number))}
        await self._node.engine.handle(name).signal("update_pod", document)
        self._watched.seen["labels sent"] += 1


class _Replacements:
    """Deletes one pod after the other, and applies it again."""

    def __init__(self, node: SimulatedNode, names: Sequence[str], watched: Watched) -> None:
        self._node, self._names, self._watched = node, itertools.cycle(reversed(names)), watched

    async def replace(self) -> None:
        name = next(self._names)
        await self._node.engine.delete(name)
        try:
            await _apply(self._node, name)
        except Failure:
            self._watched.seen["changes not answered in time"] += 1
        else:
            self._watched.seen["pods replaced"] += 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code: 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m bench.loaded", description="Run pods on a busy machine.")
    parser.add_argument("--pods", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--load", type=int, default=40, help="how many busy processes run beside (default: 40)")
    parser.add_argument("--reads", type=float, default=20, help="how many pods are read each second (default: 20)")
    options, before = parser.parse_args(arguments), machine.load()
    try:
        found = asyncio.run(loaded(options.pods, options.minutes, options.load, options.reads))
    except Missing as missing:
        sys.stderr.write(f"bench: {missing}\n")
        return 2
    what = f"{options.pods} simulated pods, {options.load} busy processes beside, {options.minutes:g} minutes"
    print(machine.environment(what, before), found, sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
