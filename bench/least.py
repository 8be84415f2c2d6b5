"""The least that a durable record costs: ``python -m bench.least`` starts crowds of workflows that do nothing.

A pod of the durable floor has an activity for its sandbox and one for each container. Here a workflow has one activity
that calls nothing, or two, or none. The server is that of `syncpod up`, and the worker has the prototype's settings.
The output is the CPU of both for each workflow: no node that records a pod's start in Temporal uses less.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import time
from datetime import timedelta
from typing import Final

from temporalio import activity, workflow
from temporalio.client import Client

from bench.idle import cpu_seconds
from bench.machine import load
from bench.prototype import TASK_QUEUE
from bench.prototype_worker import EAGER_STARTS_AT_ONCE, connected, worker_of
from tests.runtimes.temporal import DevServer

CROWD: Final = 100
ROUNDS: Final = 5
AT_ONCE: Final = EAGER_STARTS_AT_ONCE
"""How many workflows run at a time: no more than can get their first task with the answer to their start."""


@activity.defn
async def nothing() -> None:
    """Call nothing."""


@workflow.defn
class Recorded:
    """A workflow with the given number of activities, all scheduled by its first task."""

    @workflow.run
    async def run(self, activities: int) -> None:
        """Run the activities, and end."""
        soon = timedelta(minutes=5)
        await asyncio.gather(
            *(workflow.execute_activity(nothing, start_to_close_timeout=soon) for _ in range(activities))
        )


async def crowd(client: Client, name: str, activities: int) -> None:
    """Run a crowd of workflows, and return when all have ended."""
    place = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with place:
            handle = await client.start_workflow(
                Recorded.run, activities, id=f"{name}-{number}", task_queue=TASK_QUEUE, request_eager_start=True
            )
            await handle.result()

    await asyncio.gather(*(one(number) for number in range(CROWD)))


async def measure(address: str, server: int) -> None:
    """Print the CPU and the time of each workflow: medians of all rounds, with their range, in milliseconds."""
    client = await connected(address)
    async with worker_of(client, [Recorded], [nothing]):
        for activities in (0, 1, 2):
            spent: list[tuple[float, float, float]] = []
            for number in range(ROUNDS + 1):  # the first warms up
                before, began = (cpu_seconds([os.getpid()]), cpu_seconds([server])), time.perf_counter()
                await crowd(client, f"{activities}-{number}", activities)
                worker, of_server = cpu_seconds([os.getpid()]) - before[0], cpu_seconds([server]) - before[1]
                spent.append((worker + of_server, of_server, time.perf_counter() - began))
            print(f"{activities} activities: {_line(spent[1:])}", flush=True)


def _line(spent: list[tuple[float, float, float]]) -> str:
    cpu, of_server, seconds = ([1000 * each / CROWD for each in column] for column in zip(*spent, strict=True))
    return (
        f"{statistics.median(cpu):.1f} ms of CPU ({min(cpu):.1f}–{max(cpu):.1f}), the server's "
        f"{statistics.median(of_server):.1f} ms; {statistics.median(seconds):.1f} ms each in a crowd of {CROWD}"
    )


def main() -> int:
    """Measure with a server of its own; return the exit code."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    print(f"load average {load():.1f}, {os.cpu_count()} cores")
    with DevServer.launch() as server:
        asyncio.run(measure(server.address, server.pid))
    return 0


if __name__ == "__main__":
    sys.exit(main())
