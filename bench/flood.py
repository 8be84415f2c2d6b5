"""``python -m bench.flood``: the memory of worker and Temporal in an hour of crashing, replaced and queried pods.

Simulated pods crash again and again. Some are replaced each minute, so that their number stays the same; others get
another annotation, and workflows are queried. Memory is read every ten seconds. With ``--write``, the plot and its
section go into docs/engineering/performance-log.md.

With the kubelet's back-off, the records that a workflow keeps do not reach their limit within an hour, so memory still
grows. With ``--longest-back-off 8`` pods restart often enough to reach it, and the plot shows the time after that.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from temporalio.exceptions import TemporalError
from temporalio.service import RPCError, RPCStatusCode

from bench import machine
from bench.figures import markdown
from bench.flood_plot import plot
from bench.performance import DOCUMENT, LOG, today, written
from bench.simulated_node import SimulatedNode, each, simulated_node
from bench.stage import NODE
from syncpod.cli.failure import Failure
from syncpod.cli.temporal.pod_apply import apply_pod
from syncpod.pod import Pod, admit_pod
from syncpod.pod.restart_settings import MAXIMUM
from tests.runtimes.images import BUSYBOX


@dataclass(frozen=True)
class Section:
    """The place in the document for the results of one kind of run."""

    begin: str
    plot: Path


USUAL: Final = Section("<!-- measured: python -m bench.flood -->", DOCUMENT.with_name("flood.svg"))
FULL: Final = Section(
    "<!-- measured: python -m bench.flood --longest-back-off -->", DOCUMENT.with_name("flood-full.svg")
)
_QUERIED: Final = "pod"
_SAMPLES_EVERY: Final = 10.0
_AFTER: Final = 2
"""Minutes after the deletion of a flood's pods at which the table has a row for the memory."""


@dataclass(frozen=True)
class Rates:
    """How often each action is taken in a minute."""

    replaced: float = 17
    """Pods that are deleted, each of which is replaced by a new one."""
    changed: float = 28
    """Applies of existing pods, with another annotation."""
    queried: float = 316
    """Queries of the pods' workflows."""


@dataclass(frozen=True)
class Pods:
    """The number and kind of the pods."""

    staying: int = 40
    """Pods that are never replaced."""
    passing: int = 20
    """Further pods, which are replaced one after the other."""
    longest_back_off: float | None = None
    """The longest back-off of a restart in seconds; None = the kubelet's five minutes."""


@dataclass(frozen=True)
class Sample:
    """The memory at one moment."""

    minutes: float
    """Minutes since the flood began."""
    memory: Mapping[str, int]
    """Anonymous memory of each part, in bytes: what it has allocated itself."""
    shares: Mapping[str, int]
    """Proportional set size of each part, in bytes: it includes program files, and a share of shared pages."""


@dataclass(frozen=True)
class Round:
    """One flood, in minutes since the first began."""

    ended: float
    """When the actions ended."""
    gone: float
    """When all its pods had been deleted."""


def crashing_pod(name: str, generation: int = 0, longest_back_off: float | None = None) -> Pod:
    """Return a pod whose container fails a second after each start; `generation` changes only an annotation."""
    back_off = {} if longest_back_off is None else {MAXIMUM: f"{longest_back_off:g}s"}
    return admit_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": {
                    "simulate.syncpod.dev/main": '{"runTime": "1s", "exitCodes": [1]}',
                    "bench/generation": str(generation),
                    **back_off,
                },
            },
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": BUSYBOX}]},
        }
    )


def memory_of(pid: int) -> tuple[int, int]:
    """Return the anonymous memory of a process, and its proportional set size, in bytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {name: int(line.split()[1]) * 1024 for line in lines[1:] if (name := line.partition(":")[0])}
    return sizes["Anonymous"], sizes["Pss"]


class Flood:
    """The pods of one flood, and the actions on them."""

    def __init__(self, node: SimulatedNode, rates: Rates, pods: Pods) -> None:
        """Act on this node."""
        self._node = node
        self._rates = rates
        self._kind = pods
        self._numbers = itertools.count()
        self._generations = itertools.count(1)
        self._pods: list[str] = []
        """Names of the present pods; those that are never replaced come first."""
        self._passing: set[str] = set()
        """Names of the pods that are being deleted or applied at this moment."""
        self.counts = {"applied": 0, "changed": 0, "deleted": 0, "queried": 0, "failed": 0, "restarted": 0}

    async def begin(self) -> None:
        """Apply the first pods."""
        self._pods = [f"flood-{next(self._numbers)}" for _ in range(self._kind.staying + self._kind.passing)]
        await each(self._pods, lambda name: _insisted(partial(self._apply, name)))

    async def run(self) -> None:
        """Act at the given rates until cancelled."""
        await asyncio.gather(
            self._each_minute(self._rates.replaced, self._replace),
            self._each_minute(self._rates.changed, self._change),
            self._each_minute(self._rates.queried, self._query),
        )

    async def count_restarts(self) -> None:
        """Count the restarts of all present pods."""
        for name in self._pods:
            pod = await _insisted(partial(self._node.engine.handle(name).query, _QUERIED))
            statuses = pod["status"].get("containerStatuses", ()) if pod else ()
            self.counts["restarted"] += sum(status["restartCount"] for status in statuses)

    async def end(self) -> None:
        """Delete all pods, and wait until they are gone."""
        await each([*self._pods, *self._passing], lambda name: _insisted(partial(self._delete, name)))
        self._passing.clear()

    async def _each_minute(self, times: float, act: Callable[[], Awaitable[None]]) -> None:
        began = time.monotonic()
        for number in itertools.count(1):
            await asyncio.sleep(began + number * 60 / times - time.monotonic())
            try:
                await act()
            except (TemporalError, TimeoutError, Failure):  # a pod that has just gone, or a busy machine
                self.counts["failed"] += 1

    async def _apply(self, name: str) -> None:
        pod = crashing_pod(name, longest_back_off=self._kind.longest_back_off)
        await apply_pod(self._node.client, pod, node=NODE, has_attributes=True)
        self.counts["applied"] += 1

    async def _delete(self, name: str) -> None:
        await self._node.engine.delete(name)
        await self._node.engine.until_ended(name)
        self.counts["deleted"] += 1

    async def _replace(self) -> None:
        oldest, new = self._pods.pop(self._kind.staying), f"flood-{next(self._numbers)}"
        self._passing |= {oldest, new}
        there = oldest
        try:
            await self._delete(oldest)
            there = new
            await self._apply(new)
        finally:  # on a busy machine a call may fail, and the pod is replaced later
            self._pods.append(there)
        self._passing -= {oldest, new}

    async def _change(self) -> None:
        generation = next(self._generations)
        name = self._pods[generation % self._kind.staying]
        pod = crashing_pod(name, generation, self._kind.longest_back_off)
        await apply_pod(self._node.client, pod, node=NODE, has_attributes=True)
        self.counts["changed"] += 1

    async def _query(self) -> None:
        name = self._pods[self.counts["queried"] % len(self._pods)]
        self.counts["queried"] += 1
        await self._node.engine.handle(name).query(_QUERIED)


async def _insisted(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Retry a call every second until it succeeds: on a busy machine a workflow task may fail, and the call with it.

    Return the call's result; None if the workflow is over.
    """
    while True:
        try:
            return await ask()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
        except (TemporalError, TimeoutError, Failure):
            pass
        await asyncio.sleep(1)


async def flood(
    minutes: float, rest_minutes: float, rounds: int, rates: Rates, pods: Pods, say: Callable[[str], None]
) -> tuple[list[Sample], list[Round], Mapping[str, int]]:
    """Flood a new node for `minutes`, delete its pods, and watch it idle for `rest_minutes`; all this `rounds` times.

    Return the samples, the floods, and the counts of all actions.
    """
    async with simulated_node() as node:
        flooding = Flood(node, rates, pods)
        samples: list[Sample] = []
        floods: list[Round] = []
        await flooding.begin()
        began = time.monotonic()
        watching = asyncio.create_task(_sampled(node, samples, began, say))
        for number in range(rounds):
            if number:
                await flooding.begin()
            running = asyncio.create_task(flooding.run())
            await asyncio.wait({watching, running}, timeout=minutes * 60, return_when=asyncio.FIRST_COMPLETED)
            for task in (running, watching):
                if task.done():
                    task.result()
            running.cancel()
            await asyncio.wait({running})
            ended = (time.monotonic() - began) / 60
            await flooding.count_restarts()
            await flooding.end()
            floods.append(Round(ended, (time.monotonic() - began) / 60))
            await asyncio.sleep(rest_minutes * 60)
        watching.cancel()
        return samples, floods, flooding.counts


async def _sampled(node: SimulatedNode, samples: list[Sample], began: float, say: Callable[[str], None]) -> None:
    """Add a sample every ten seconds, until cancelled."""
    for number in itertools.count(1):
        read = {part: memory_of(pid) for part, pid in node.pids.items()}
        sample = Sample(
            (time.monotonic() - began) / 60,
            {part: anonymous for part, (anonymous, _) in read.items()},
            {part: share for part, (_, share) in read.items()},
        )
        samples.append(sample)
        parts = (
            f"{part} {each / 2**20:.1f} (PSS {sample.shares[part] / 2**20:.1f})" for part, each in sample.memory.items()
        )
        say(f"{sample.minutes:6.1f} min  {'  '.join(parts)}")
        await asyncio.sleep(began + number * _SAMPLES_EVERY - time.monotonic())


def report(
    samples: Sequence[Sample],
    counts: Mapping[str, int],
    minutes: float,
    floods: Sequence[Round],
    pods: Pods,
    image: Path,
    environment: str,
) -> str:
    """Return the section of the page: the counts, the plot, and a table of the memory at some moments.

    Each of the floods took `minutes`.
    """
    done = ", ".join(f"{number:,} {what}" for what, number in counts.items())
    parts = list(samples[0].memory)
    rows: list[Sequence[str]] = [("anonymous memory (PSS), MiB", *parts)]
    shares = (0, 0.1, 0.25, 0.5, 0.75, 1) if len(floods) == 1 else (0, 0.5, 1)
    moments = {each.ended - minutes * (1 - share): "" for each in floods for share in shares}
    moments |= {each.gone + _AFTER: f", {_AFTER} after the deletion" for each in floods}
    for moment, what in sorted({samples[-1].minutes: "", **moments}.items()):
        sample = next((each for each in samples if each.minutes >= moment), samples[-1])
        cells = (f"{sample.memory[part] / 2**20:.0f} ({sample.shares[part] / 2**20:.0f})" for part in parts)
        rows.append((f"after {sample.minutes:.0f} min{what}", *cells))
    number = pods.staying + pods.passing
    longest = "" if pods.longest_back_off is None else f" with a back-off of at most {pods.longest_back_off:g} s"
    times = "" if len(floods) == 1 else f"{len(floods)} times "
    begins = f"Measured on {today()}: {times}{minutes:g} minutes with {number} pods in a crash loop{longest}; {done}."
    shown = f"![anonymous memory of worker, Temporal and runtime over the time](../{image.name})"
    return "".join(f"\n{part}\n" for part in (begins, shown, markdown(rows), environment)) + "\n"


def main() -> None:
    """Run a flood, print its section, and with ``--write`` write it into the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.flood", description="Watch the memory in a flood of pods.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rest", type=float, default=5, help="minutes that it is watched after that (default: 5)")
    parser.add_argument("--rounds", type=int, default=1, help="how many times all this is done to the same node")
    parser.add_argument("--times", type=float, default=1, help="how many times the usual rates (default: 1)")
    parser.add_argument("--pods", type=int, default=60, help="how many pods there are, a third of them passing")
    parser.add_argument("--longest-back-off", type=float, help="seconds (default: the kubelet's five minutes)")
    parser.add_argument("--write", action="store_true", help="write the plot and the section into docs")
    parser.add_argument("--plot", type=Path, help="where the plot goes if it is not written into docs")
    asked = parser.parse_args()
    usual = Rates()
    rates = Rates(*(asked.times * rate for rate in (usual.replaced, usual.changed, usual.queried)))
    passing = asked.pods // 3
    pods = Pods(asked.pods - passing, passing, asked.longest_back_off)
    section = USUAL if pods.longest_back_off is None else FULL
    before = machine.load()

    def say(line: str) -> None:
        sys.stderr.write(f"flood: {line}\n")
        sys.stderr.flush()

    samples, floods, counts = asyncio.run(flood(asked.minutes, asked.rest, asked.rounds, rates, pods, say))
    environment = machine.environment("simulated pods", before)
    text = report(samples, counts, asked.minutes, floods, pods, section.plot, environment)
    where = section.plot if asked.write else asked.plot
    if where is not None:
        curves = {part: [(each.minutes, each.memory[part] / 2**20) for each in samples] for part in samples[0].memory}
        where.write_text(plot(curves, ends=[each.ended for each in floods]))
    if asked.write:
        LOG.write_text(written(LOG.read_text(), text, begin=section.begin))
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
