"""The memory of a finished step is freed at once, without the garbage collector, which runs minutes apart."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio

from activities.step_attempt import StepAttempt
from tests.activities.bench import Bench, bench_of, container
from tests.runtimes.containerd import Containerd
from tests.runtimes.embedded import Embedded

PATIENCE_SECONDS = 60.0
"""Generous, since one or two timers keep a step in memory for some seconds after its end."""


@pytest.fixture(scope="session")
def runtime(embedded: Embedded) -> Embedded:
    return embedded


@pytest_asyncio.fixture
async def bench(runtime: Embedded, tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench_of(cast(Containerd, runtime), tmp_path) as bench:  # nothing here asks it for `ctr`
        yield bench


def attempts() -> int:
    """The number of attempts of steps in this process's memory."""
    return sum(type(each) is StepAttempt for each in gc.get_objects())


@pytest.mark.usefixtures("no_collection")
async def test_the_steps_of_a_pods_whole_life_are_freed(bench: Bench) -> None:
    before = attempts()
    pod = bench.pod(container(command=("sh", "-c", "exec sleep 1000")))
    await pod.create_sandbox()
    await pod.start()
    await pod.kill(grace=0)
    await pod.remove()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while attempts() > before:  # noqa: ASYNC110  # there is nothing to wait on
            await asyncio.sleep(0.1)
