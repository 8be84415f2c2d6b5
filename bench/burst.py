"""``python -m bench.burst``: applies and then deletes many simulated pods, all at once and then a few at a time.

For both it prints the time beside that of the bare CRI calls, the longest time without progress of any pod, and the
cost: workflow tasks of each pod, timed-out tasks, and retried steps. ``--load 40`` runs 40 busy processes at the same
time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from temporalio.api.history.v1 import HistoryEvent

from bench import machine
from bench.figures import markdown
from bench.machine import busy
from bench.pods import simulated_pod
from bench.simulated_node import AT_ONCE, SimulatedNode, each, simulated_node
from bench.stage import NODE
from bench.tasks import Tasks, counted
from syncpod.cli.failure import Failure
from syncpod.cli.temporal.pod_apply import apply_pod
from syncpod.messages.node import node_workflow_id
from tests.runtimes.bare import BareCri
from tests.runtimes.embedded import Embedded
from tests.runtimes.require import Missing

_LOOKS_EVERY = 0.5
_PATIENCE_SECONDS = 1200.0


@dataclass(frozen=True)
class Phase:
    """The application or the deletion of all pods."""

    seconds: float
    """Seconds from the first request until all pods run, or are gone."""
    longest_pause: float
    """The longest time in which no pod began to run, or ended."""
    cpu: Mapping[str, float]
    """CPU seconds by part."""
    tasks: Tasks = field(default_factory=Tasks)


@dataclass
class Burst:
    """The results of one run of all pods."""

    at_once: int
    applied: Phase
    deleted: Phase
    node: Tasks
    late: int = field(default=0)
    """How many applies were not answered in time, so that the node was reported as away."""


async def burst(pods: int, at_once: int, load: int) -> Burst:
    """Run `pods` pods, `at_once` of which are applied or deleted at the same time, on a node of their own."""
    names = [f"burst-{number}" for number in range(pods)]
    late = 0
    async with simulated_node() as node:

        async def apply(name: str) -> None:
            nonlocal late
            while True:
                try:
                    applied = await apply_pod(node.client, simulated_pod(name), node=NODE, has_attributes=True)
                except Failure:
                    late += 1
                else:
                    late += bool(applied.silence)
                    return

        with busy(load):
            applied = await _phase(node, lambda: each(names, apply, at_once=at_once), "running", pods)
            deleted = await _phase(node, lambda: each(names, node.engine.delete, at_once=at_once), "gone", pods)
        begun, ended = Tasks(), Tasks()
        for name in names:
            events = (await node.engine.handle(name).fetch_history()).events
            at = deletion_of(events)
            begun, ended = begun + counted(events[:at]), ended + counted(events[at:])
        known = await node.client.get_workflow_handle(node_workflow_id(NODE)).fetch_history()
    applied, deleted = replace(applied, tasks=begun), replace(deleted, tasks=ended)
    return Burst(at_once, applied, deleted, counted(known.events), late)


def deletion_of(events: Sequence[HistoryEvent]) -> int:
    """Return the index of the signal that deletes a pod. Raises StopIteration if there is none."""
    return next(
        index
        for index, event in enumerate(events)
        if event.workflow_execution_signaled_event_attributes.signal_name == "delete_pod"
    )


async def _phase(node: SimulatedNode, requests: Callable[[], Awaitable[None]], what: str, pods: int) -> Phase:
    """Make the requests, and poll until all pods are in the state `what`: running or gone."""
    began, cpu = time.monotonic(), node.cpu()
    moved = began
    longest, before = 0.0, 0
    condition = "PodReady = true" if what == "running" else ""
    async with _in_background(requests) as asking, asyncio.timeout(_PATIENCE_SECONDS):
        while before < pods or not asking.done():
            await asyncio.sleep(_LOOKS_EVERY)
            if asking.done():
                asking.result()
            there = await node.visible(condition)
            done, now = there if what == "running" else pods - there, time.monotonic()
            longest = max(longest, now - moved)
            if done != before:
                sys.stderr.write(f"bench:   {now - began:6.1f} s: {done} {what}\n")
                before, moved = done, now
        await asking
    after = node.cpu()
    return Phase(time.monotonic() - began, longest, {part: after[part] - cpu[part] for part in after})


@contextlib.asynccontextmanager
async def _in_background(requests: Callable[[], Awaitable[None]]) -> AsyncIterator[asyncio.Future[None]]:
    asking = asyncio.ensure_future(requests())
    try:
        yield asking
    finally:
        asking.cancel()


async def floor(pods: int, load: int) -> tuple[float, float]:
    """Return how many seconds the bare CRI calls take to start this many pods, and to end them."""
    runtime = await asyncio.to_thread(Embedded.launch, "--simulate")
    try:
        async with BareCri(runtime.endpoint) as cri:
            with busy(load):
                began, started = time.monotonic(), []

                async def start(name: str) -> None:
                    started.append(await cri.start_pod(cri.sandbox_config(name)))

                await each((f"bare-{number}" for number in range(pods)), start)
                up = time.monotonic()
                await each(started, cri.remove_pod)
                return up - began, time.monotonic() - up
    finally:
        await asyncio.to_thread(runtime.close)


def table(pods: int, bare: tuple[float, float], bursts: Sequence[Burst]) -> str:
    """Return the figures as Markdown."""
    head = ("seconds", "longest pause", "workflow tasks/pod", "timed out", "failed", "steps/pod", "tries/pod")
    rows: list[Sequence[str]] = []
    for what, seconds in zip(("applied", "deleted"), bare, strict=True):
        empty = [""] * (len(head) + len(bursts[0].applied.cpu))
        rows.append((f"{what} by bare CRI calls, {AT_ONCE} at a time", f"{seconds:.1f}", *empty))
    for one in bursts:
        how = "all at once" if one.at_once >= pods else f"{one.at_once} at a time"
        rows.append((f"applied {how}", *_cells(one.applied, pods), str(one.late)))
        rows.append((f"deleted {how}", *_cells(one.deleted, pods), ""))
    parts = (f"CPU s, {part}" for part in bursts[0].applied.cpu)
    nodes = ", ".join(str(one.node.events) for one in bursts)
    titles = (f"{pods} simulated pods", *head, *parts, "called away")
    return f"{markdown([titles, *rows])}\n\nThe node's workflow: {nodes} events"


def _cells(phase: Phase, pods: int) -> Sequence[str]:
    tasks = phase.tasks
    return (
        *(f"{phase.seconds:.1f}", f"{phase.longest_pause:.1f}"),
        *(f"{tasks.workflow / pods:.2f}", str(tasks.timed_out), str(tasks.failed)),
        *(f"{tasks.steps / pods:.2f}", f"{tasks.tries / pods:.2f}"),
        *(f"{seconds:.1f}" for seconds in phase.cpu.values()),
    )


async def measured(pods: int, at_once: Sequence[int], load: int) -> str:
    """Measure all, one after the other, and return the table."""
    bare = await floor(pods, load)
    found = []
    for number in at_once:
        sys.stderr.write(f"bench: {pods} pods, {number} at a time\n")
        found.append(await burst(pods, number, load))
    return table(pods, bare, found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code: 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m bench.burst", description="Apply and delete many pods at once.")
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--at-once", type=int, nargs="+", help="how many requests at a time (default: all, then 8)")
    parser.add_argument("--load", type=int, default=0, help="how many busy processes run beside (default: 0)")
    options, before = parser.parse_args(arguments), machine.load()
    at_once = options.at_once or (options.pods, AT_ONCE)
    try:
        found = asyncio.run(measured(options.pods, at_once, options.load))
    except Missing as missing:
        sys.stderr.write(f"bench: {missing}\n")
        return 2
    beside = f", {options.load} busy processes beside" if options.load else ""
    print(machine.environment(f"simulated pods{beside}", before), found, sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
