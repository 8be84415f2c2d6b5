"""The interface that a test uses of its runtime, whichever runtime that is."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Protocol

from tests.patience import PATIENCE
from tests.runtimes.processes import Process


class HeldPoint(Protocol):
    """A point at which calls wait until the end of the test's `with` block."""

    @property
    def arrivals(self) -> int:
        """The number of calls that have arrived at this point since it was shut."""

    async def reached(self, calls: int = 1, *, patience: float = PATIENCE) -> None:
        """Wait until this many calls have arrived; raises TimeoutError after `patience` seconds."""

    def open(self) -> None:
        """Let all calls through again."""


class GateKeeper(Protocol):
    """The points at which a runtime's calls can be held. The methods raise ValueError for an unknown point."""

    def hold(self, point: str) -> contextlib.AbstractContextManager[HeldPoint]:
        """Make calls at `point` wait until the block ends or its gate is opened."""

    def refuse(self, point: str) -> contextlib.AbstractContextManager[HeldPoint]:
        """Make calls at `point` fail."""


class Runtime(Protocol):
    """One running CRI runtime in a directory of its own, killed and started again at will."""

    @property
    def name(self) -> str:
        """Its name in the tests: `embedded`, `containerd16`, `containerd24`."""

    @property
    def kind(self) -> str:
        """Its own name, which is the prefix of container ids in a pod's status."""

    @property
    def version(self) -> str:
        """Its version in full."""

    @property
    def series(self) -> str:
        """The first two numbers of its version."""

    @property
    def directory(self) -> Path:
        """The directory of all its files."""

    @property
    def endpoint(self) -> str:
        """Its CRI endpoint, as `unix:///path`."""

    @property
    def log(self) -> Path:
        """Its log."""

    @property
    def images(self) -> tuple[str, ...]:
        """The images that it has at its start."""

    @property
    def cgroup_parent(self) -> str:
        """The parent cgroup of a test's pods; empty if the runtime cannot make cgroups."""

    @property
    def pid(self) -> int:
        """The server's process id; raises RuntimeError while it is down."""

    @property
    def gates(self) -> GateKeeper:
        """The gates for the programs that it calls."""

    @property
    def shims(self) -> tuple[Process, ...]:
        """The live processes between it and its containers."""

    def shims_of(self, *ids: str) -> tuple[Process, ...]:
        """The live processes between it and these sandboxes and containers."""

    def start(self, *, patience: float = PATIENCE) -> None:
        """Start the server and wait until it is ready."""

    def kill(self) -> None:
        """SIGKILL the server; containers live on."""

    def restart(self) -> None:
        """SIGKILL the server and start it again."""

    def close(self) -> None:
        """End everything that it runs and remove every trace of it."""
