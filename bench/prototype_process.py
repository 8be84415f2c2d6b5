"""Starts the prototype's worker as a process, and sends commands to it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from bench.bare import BarePod
from bench.prototype import Plan, packed

_ROOT = Path(__file__).resolve().parents[1]


def plan_of(made: BarePod) -> Plan:
    """Return the prototype's plan of a prepared pod."""
    return Plan(
        sandbox=packed(made.sandbox),
        init_containers=[packed(each) for each in made.init_containers],
        containers=[packed(each) for each in (made.main, *made.others)],
        again=packed(made.again),
        grace_seconds=made.pod.spec.termination_grace_period_seconds or 0,
    )


class Prototype:
    """A running worker of the prototype; `launched` starts and ends it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Send commands to the standard input of `process`."""
        self._process = process

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def start(self, name: str, plan: Plan) -> None:
        """Have the worker start a pod."""
        await self._tell(f"start {name} {json.dumps(dataclasses.asdict(plan))}")

    async def exited(self, name: str) -> None:
        """Report to the worker that the pod's first container has exited."""
        await self._tell(f"exited {name}")

    async def stop(self, name: str) -> None:
        """Have the worker end a pod."""
        await self._tell(f"stop {name}")

    async def _tell(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()


@contextlib.asynccontextmanager
async def launched(endpoint: str, address: str, environment: Mapping[str, str]) -> AsyncIterator[Prototype]:
    """Run a worker for a runtime and a Temporal server during the block. Raises RuntimeError if it does not serve."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.prototype_worker", endpoint, address),
        cwd=_ROOT,
        env=dict(environment),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout
        if not await process.stdout.readline():
            raise RuntimeError("the prototype's worker has ended before it served")
        yield Prototype(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
