"""The gate of the embedded runtime: it stops the process that makes containers' processes.

The embedded runtime calls no other program, such as CNI or runc, that a test could replace. But one process, the
spawner, forks all supervisors. While it is stopped, a request to start a container is recorded and sent, but not yet
carried out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tests.patience import PATIENCE
from tests.runtimes.processes import processes

POINT = "runc-create"
"""The name of the same point in containerd's gates."""


class SpawnerGate:
    """The spawner, stopped until the end of the test's `with` block."""

    def __init__(self, state_dir: Path, spawner: int) -> None:
        self._state_dir = state_dir
        self._spawner = spawner
        self._earlier = self._begun()

    @property
    def arrivals(self) -> int:
        """The number of waiting starts: those recorded since the gate was shut that no supervisor has begun."""
        return len(self._begun() - self._earlier)

    async def reached(self, calls: int = 1, *, patience: float = PATIENCE) -> None:
        """Wait until `calls` calls have arrived at this point; raises TimeoutError after `patience` seconds."""
        deadline = time.monotonic() + patience
        while self.arrivals < calls:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{POINT}: {self.arrivals} of {calls} calls came in {patience} s")
            await asyncio.sleep(0.01)

    def open(self) -> None:
        """Let all calls through again, including waiting ones. Does nothing to an open gate."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._spawner, signal.SIGCONT)

    def shut(self) -> None:
        """Stop the spawner."""
        os.kill(self._spawner, signal.SIGSTOP)

    def _begun(self) -> set[Path]:
        specs = self._state_dir.glob("*/*/p*/spec.json")
        return {spec for spec in specs if not (spec.with_name("started.json")).exists()}


class SpawnerGates:
    """The gates of an embedded runtime: only one, which can hold but not refuse calls."""

    def __init__(self, state_dir: Path, server: int) -> None:
        self._state_dir = state_dir
        self._server = server

    @property
    def spawners(self) -> list[int]:
        """The server's spawner, if it has one: it begins with the first start, and again with the next if it dies."""
        return [
            process.pid
            for process in processes()
            if process.parent == self._server and any(argument.endswith("/spawner.py") for argument in process.argv)
        ]

    @contextlib.contextmanager
    def hold(self, point: str) -> Iterator[SpawnerGate]:
        """Make starts wait until the block ends or the gate is opened. Raises ValueError for any other point."""
        if point != POINT:
            raise ValueError(f"the embedded runtime has no gate {point!r}: there is {POINT}")
        (spawner,) = self.spawners
        gate = SpawnerGate(self._state_dir, spawner)
        gate.shut()
        try:
            yield gate
        finally:
            gate.open()

    def refuse(self, point: str) -> contextlib.AbstractContextManager[SpawnerGate]:
        """Raise ValueError, since the runtime calls no program that could refuse."""
        raise ValueError(f"the embedded runtime has nobody at {point!r} who could refuse")
