"""Runs all cases of a directory on one node, several at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

from qa.manifests.cases import Case, Manifests, Row, come_to
from qa.manifests.node import Node, node_on
from qa.manifests.stand_ins import MADE, import_into
from tests.runtimes.containerd import Containerd
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer

_AT_ONCE = 10
"""The number of cases that run at a time; most of them wait for most of their time."""

_SLOW = ("restart-all-containers", "healthcheck", "termination", "liveness")
"""Parts of the paths of manifests that take long, and therefore begin first."""


class Run:
    """The running cases of a directory."""

    def __init__(self, node: Node, manifests: Manifests, only: str) -> None:
        self._node = node
        self._manifests = manifests
        self._slots = asyncio.Semaphore(_AT_ONCE)
        wanted = (case for case in manifests.cases if only in str(manifests.directory / case.path))
        ordered = sorted(wanted, key=lambda case: not any(slow in case.path for slow in _SLOW))
        self._rows = {case.path: self._begin(case) for case in ordered}

    @classmethod
    @contextlib.asynccontextmanager
    async def begun(
        cls, manifests: Manifests, runtime: Runtime, server: DevServer, directory: Path, *, only: str = ""
    ) -> AsyncIterator[Self]:
        """Start all cases on a node of their own; cases that still run at the end of the `with` block are cancelled.

        Only cases with `only` in their path are run.
        """
        if isinstance(runtime, Containerd):
            import_into(runtime, directory)
        async with node_on(runtime, server, directory) as node:
            if isinstance(runtime, Containerd):
                await node.images(each.image for each in MADE)
            run = cls(node, manifests, only)
            try:
                yield run
            finally:
                for task in run._rows.values():
                    task.cancel()
                await asyncio.gather(*run._rows.values(), return_exceptions=True)

    async def row(self, case: Case) -> Row:
        """Wait for a case, and return its result."""
        return await self._rows[case.path]

    async def rows(self) -> dict[str, Row]:
        """Wait for all cases, and return their results by path."""
        return dict(zip(self._rows, await asyncio.gather(*self._rows.values()), strict=True))

    def _begin(self, case: Case) -> asyncio.Task[Row]:
        async def one() -> Row:
            async with self._slots:
                return await come_to(case, self._node, self._manifests)

        return asyncio.ensure_future(one())
