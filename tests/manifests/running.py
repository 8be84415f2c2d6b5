"""All manifests on one node, some at a time; each result is there to be asked for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Self

from tests.manifests import documentation
from tests.manifests.cases import Case, Row, come_to
from tests.manifests.node import Node, node_on
from tests.manifests.stand_ins import MADE, import_into, localized
from tests.runtimes.containerd import Containerd
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer

_AT_ONCE = 10
"""Manifests at a time: most of them wait for most of their time."""

_SLOW = ("restart-all-containers", "healthcheck", "termination", "liveness")
"""In the paths of those that take long, and so begin first."""


class Run:
    """The manifests on their way."""

    def __init__(self, node: Node, cases: Sequence[Case]) -> None:
        self._node = node
        self._slots = asyncio.Semaphore(_AT_ONCE)
        ordered = sorted(cases, key=lambda case: not any(slow in case.path for slow in _SLOW))
        self._rows = {case.path: self._begin(case) for case in ordered}

    @classmethod
    @contextlib.asynccontextmanager
    async def begun(
        cls, cases: Sequence[Case], runtime: Runtime, server: DevServer, directory: Path
    ) -> AsyncIterator[Self]:
        """Begin with all of them on a node of their own; those not asked for by the end are broken off."""
        if isinstance(runtime, Containerd):
            import_into(runtime, directory)
        async with node_on(runtime, server, directory) as node:
            if isinstance(runtime, Containerd):
                await node.images(each.image for each in MADE)
            run = cls(node, cases)
            try:
                yield run
            finally:
                for task in run._rows.values():
                    task.cancel()
                await asyncio.gather(*run._rows.values(), return_exceptions=True)

    async def row(self, case: Case) -> Row:
        """What a manifest came to, once it has. Asked again it is run again, as a test is that is tried again."""
        row = await (self._rows.pop(case.path, None) or self._begin(case))
        return row

    def _begin(self, case: Case) -> asyncio.Task[Row]:
        async def one() -> Row:
            async with self._slots:
                return await come_to(case, self._node, documentation.DIRECTORY, localized)

        return asyncio.ensure_future(one())
