"""The takeover benchmark when no worker takes over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.service import RPCError, RPCStatusCode

from bench.takeover import answered
from tests.agent.waiting import until
from tests.e2e.faults_support import FaultyNode, Pod


@dataclass
class Unanswering:
    """A pod's workflow that never answers a query."""

    asked: int = 0

    async def query(self, *_: object, **__: object) -> Any:
        self.asked += 1
        raise RPCError("no poller", RPCStatusCode.FAILED_PRECONDITION, b"")


async def test_a_worker_that_does_not_start_ends_the_benchmark_with_the_workers_error() -> None:
    handles = [Unanswering() for _ in range(3)]

    async def serve() -> None:
        while not all(each.asked for each in handles):  # noqa: ASYNC110  # those who ask tell nobody
            await asyncio.sleep(0)
        raise AssertionError("no such runtime")

    others = asyncio.all_tasks()
    pods = [cast(Pod, SimpleNamespace(handle=each)) for each in handles]
    async with asyncio.timeout(60):
        with pytest.raises(AssertionError, match="no such runtime"):
            await answered(cast(FaultyNode, SimpleNamespace(serve=serve)), pods)
    await until(lambda: asyncio.all_tasks() <= others)  # they are not queried any more
