"""What the node's pods use of CPU, memory and network: one call to the runtime for all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime, SandboxStats
from syncpod.translation.names import NODE_LABEL

log = logging.getLogger(__name__)

_FRESH_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 5.0
"""How long the runtime may take: containerd 1.6 asks each shim, and one that hangs holds up the answer."""


@dataclass(frozen=True)
class Usage:
    """One answer of the runtime."""

    pods: tuple[SandboxStats, ...] = ()
    is_known: bool = True
    """Whether the runtime has answered."""


class UsageOfPods:
    """Asks the runtime once a second at most, whoever reads. Belongs to one event loop."""

    def __init__(self, cri: CriRuntime, node: str) -> None:
        """Measure the sandboxes of the node of this name."""
        self._cri, self._labels = cri, {NODE_LABEL: node}
        self._usage, self._stale_at = Usage(), 0.0
        self._asking = asyncio.Lock()
        self._is_failing = False

    async def measure(self) -> Usage:
        """Return what the pods with a ready sandbox use, a second ago at most."""
        async with self._asking:
            if time.monotonic() >= self._stale_at:
                self._usage = await self._ask()
                self._stale_at = time.monotonic() + _FRESH_SECONDS
            return self._usage

    async def _ask(self) -> Usage:
        try:
            pods = await self._cri.list_sandbox_stats(labels=self._labels, timeout_seconds=PATIENCE_SECONDS)
        except CriError as error:
            if not self._is_failing:
                log.warning("the runtime does not say what the pods use: %s", error)
            self._is_failing = True
            return Usage(is_known=False)
        self._is_failing = False
        return Usage(pods)
