"""The interface that a test uses of its runtime, whichever runtime that is."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Protocol

from tests.patience import PATIENCE
from tests.runtimes.processes import Process


class HeldPoint(Protocol):
    """A point on the way of a call at which it waits, as long as the test's `with` block lasts."""

    @property
    def arrivals(self) -> int:
        """How many calls have come to this point since it was shut."""

    async def reached(self, calls: int = 1, *, patience: float = PATIENCE) -> None:
        """Wait until so many have come; raises TimeoutError after `patience` seconds."""

    def open(self) -> None:
        """Let everything through again."""


class GateKeeper(Protocol):
    """The points that a runtime can be held at; each raises ValueError for one that it does not have."""

    def hold(self, point: str) -> contextlib.AbstractContextManager[HeldPoint]:
        """Make calls at `point` wait until the block ends or its gate is opened."""

    def refuse(self, point: str) -> contextlib.AbstractContextManager[HeldPoint]:
        """Make calls at `point` fail."""


class Runtime(Protocol):
    """One running CRI runtime in a directory of its own, killed and started again at will."""

    @property
    def name(self) -> str:
        """What the suite calls it: `embedded`, `containerd16`, `containerd24`."""

    @property
    def kind(self) -> str:
        """What it calls itself, and container ids in a pod's status begin with."""

    @property
    def version(self) -> str:
        """Its version in full."""

    @property
    def series(self) -> str:
        """The first two numbers of its version."""

    @property
    def directory(self) -> Path:
        """Where it keeps everything."""

    @property
    def endpoint(self) -> str:
        """Its CRI endpoint, as `unix:///path`."""

    @property
    def log(self) -> Path:
        """What it says."""

    @property
    def images(self) -> tuple[str, ...]:
        """The images that it has from the start."""

    @property
    def cgroup_parent(self) -> str:
        """The cgroup below which a test's pods belong; empty where cgroups are closed to it."""

    @property
    def pid(self) -> int:
        """The server's process id; raises RuntimeError while it is down."""

    @property
    def gates(self) -> GateKeeper:
        """What holds or refuses the programs that it calls."""

    @property
    def shims(self) -> tuple[Process, ...]:
        """The processes that stand between it and its containers, those that live now."""

    def shims_of(self, *ids: str) -> tuple[Process, ...]:
        """Those of them that stand before these sandboxes and containers."""

    def start(self, *, patience: float = PATIENCE) -> None:
        """Start the server and wait until it is ready."""

    def kill(self) -> None:
        """SIGKILL the server; containers live on."""

    def restart(self) -> None:
        """SIGKILL the server and start it again."""

    def close(self) -> None:
        """End everything that it runs and remove every trace of it."""
