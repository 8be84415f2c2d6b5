"""``python -m bench.telemetry``: the cost of telemetry. A node with full telemetry and a node with none take turns.

Full telemetry means traces and metrics to an OpenTelemetry collector, scrapes of the metrics every 15 seconds, and
logs of every step as JSON. The journal is always on, so both nodes have it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Sequence

from bench import machine
from bench.figures import Figure, Row, markdown
from bench.idle import cpu_seconds
from bench.nodes import Nodes, Settings, nodes
from tests.runtimes.containerd import VERSIONS
from tests.runtimes.ports import free_port
from tests.runtimes.require import Missing
from tests.worker.collector import Collector

START_AIM = 1.05
IDLE_AIM = 1.0
"""The additional CPU that an idle node may need, in percent of a core."""
_SCRAPED_EVERY_SECONDS = 15.0
_SETTLED_SECONDS = 10.0
_SEEN, _UNSEEN = "seen", "unseen"


async def _measure(runtime_version: str, runs: int, pods: int, idle_seconds: float) -> tuple[Row, float]:
    """Return the row of the starts, and the additional CPU of the idle node with telemetry, in percent of a core."""
    with Collector() as collector:
        address = f"127.0.0.1:{free_port()}"
        seen = Settings(
            ("--log-level", "info", "--log-format", "json", "--metrics-address", address),
            {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint},
        )
        async with nodes(runtime_version, {_SEEN: seen, _UNSEEN: Settings()}) as here, _scraping(address):
            starts = await _starts(here, runs)
            more = await _idle(here, pods, idle_seconds)
        if not collector.spans or not collector.metrics:
            raise RuntimeError("the node that is seen has exported nothing")
    row = Row("start of a pod", Figure(tuple(starts[_SEEN])), Figure(tuple(starts[_UNSEEN])), START_AIM)
    return row, more


async def _starts(here: Nodes, runs: int) -> dict[str, list[float]]:
    """Return the milliseconds of each node's starts."""
    took: dict[str, list[float]] = {_SEEN: [], _UNSEEN: []}
    for run in range(runs + 1):
        # The second node may find a busier machine, so they alternate.
        for node in (_SEEN, _UNSEEN) if run % 2 else (_UNSEEN, _SEEN):
            seconds = await here.start(node, f"{node}-{run}")
            await here.delete(f"{node}-{run}")
            if run:  # a node's first start loads modules that later starts share
                took[node].append(1000 * seconds)
    return took


async def _idle(here: Nodes, pods: int, seconds: float) -> float:
    """Run idle pods on both nodes, and return the difference of the workers' CPU, in percent of a core."""
    for node in here.workers:
        for number in range(pods):
            await here.start(node, f"idle-{node}-{number}")
    await asyncio.sleep(_SETTLED_SECONDS)
    began, before = time.monotonic(), {node: cpu_seconds([worker.pid]) for node, worker in here.workers.items()}
    await asyncio.sleep(seconds)
    passed = time.monotonic() - began
    used = {node: 100 * (cpu_seconds([here.workers[node].pid]) - before[node]) / passed for node in before}
    sys.stdout.write(f"idle with {pods} pods: {used[_SEEN]:.2f} % of a core, unseen {used[_UNSEEN]:.2f} %\n")
    for node in here.workers:
        for number in range(pods):
            await here.delete(f"idle-{node}-{number}")
    return used[_SEEN] - used[_UNSEEN]


@contextlib.asynccontextmanager
async def _scraping(address: str) -> AsyncIterator[None]:
    """Scrape a node's metrics during the block. Raises OSError at its end if a scrape failed."""

    def scrape() -> None:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
            answer.read()

    async def scrapes() -> None:
        while True:
            await asyncio.to_thread(scrape)
            await asyncio.sleep(_SCRAPED_EVERY_SECONDS)

    task = asyncio.create_task(scrapes())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0, or 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m bench.telemetry", description=__doc__)
    parser.add_argument("--runtime", choices=VERSIONS, default=VERSIONS[-1], help="default: %(default)s")
    parser.add_argument("--runs", type=int, default=15, help="starts on each node (default: %(default)s)")
    parser.add_argument("--pods", type=int, default=10, help="idle pods on each node (default: %(default)s)")
    parser.add_argument("--idle", type=float, default=60.0, help="idle seconds (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    before = machine.load()
    try:
        row, more = asyncio.run(_measure(chosen.runtime, chosen.runs, chosen.pods, chosen.idle))
    except Missing as missing:
        sys.stderr.write(f"bench: {missing}\n")
        return 2
    table = [
        ("", "all on", "all off", "", "aim", "met"),
        (row.what, str(row.engine), str(row.bare), f"{row.ratio:.3f} ×", f"≤ {row.aim} ×", _yes(bool(row.met))),
        ("idle", "", "", f"{more:+.2f} % of a core", f"≤ {IDLE_AIM} %", _yes(more <= IDLE_AIM)),
    ]
    sys.stdout.write(f"{markdown(table)}\n\n{machine.environment(f'containerd {chosen.runtime}', before)}\n")
    return 0


def _yes(met: bool) -> str:
    return "yes" if met else "NO"


if __name__ == "__main__":
    sys.exit(main())
