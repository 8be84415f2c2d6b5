"""Counts live sandboxes and containers repeatedly, by raw CRI calls, to detect duplicates."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError
from syncpod.cri.port import ContainerSummary, SandboxSummary
from syncpod.translation.names import NODE_LABEL, POD_UID_LABEL

_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class Count:
    """The live parts of a pod: the number of ready sandboxes and of running containers."""

    sandboxes: int = 0
    containers: int = 0

    def __str__(self) -> str:
        return f"{self.sandboxes} + {self.containers}"


@dataclass
class Census:
    """Everything that was ever seen of a node's pods."""

    duplicates: set[str] = field(default_factory=set)
    """The names of sandboxes and containers of which two were alive at once."""
    looks: int = 0
    """The number of listings."""

    def take(self, sandboxes: tuple[SandboxSummary, ...], containers: tuple[ContainerSummary, ...]) -> None:
        """Add a listing, in which the sandboxes were read before the containers."""
        ready = Counter(each.uid for each in sandboxes if each.state == "SANDBOX_READY")
        running = Counter((each.labels[POD_UID_LABEL], each.name) for each in containers if each.state == "running")
        self.duplicates.update(f"sandbox of {uid}" for uid, count in ready.items() if count > 1)
        self.duplicates.update(f"container {name} of {uid}" for (uid, name), count in running.items() if count > 1)
        self.looks += 1

    def of(self, *uids: str) -> tuple[str, ...]:
        """The duplicates among these pods."""
        return tuple(sorted(each for each in self.duplicates if each.rpartition(" ")[2] in uids))


@contextlib.asynccontextmanager
async def census(cri: CriClient, node: str) -> AsyncIterator[Census]:
    """Count a node's pods repeatedly during the block; calls that fail are repeated."""
    found = Census()

    async def look() -> None:
        labels = {NODE_LABEL: node}
        while True:
            with contextlib.suppress(CriError):
                found.take(await cri.list_pod_sandboxes(labels=labels), await cri.list_containers(labels=labels))
            await asyncio.sleep(_PAUSE_SECONDS)

    looking = asyncio.create_task(look(), name="census")
    try:
        yield found
        if looking.done():
            looking.result()
        assert found.looks, "nothing was counted"
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
