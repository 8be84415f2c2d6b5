"""A node's state for its pulls: their turns, their rate, and its records of the images it pulled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from activities.node.clock import monotonic
from activities.node.fences import Holder
from syncpod.node.image_credentials import NodeCredentials
from syncpod.node.pull_records import PullRecords
from syncpod.node.verification import Verification

PULLS_PER_SECOND: Final = 5.0
"""The kubelet's registryPullQPS."""
PULLS_AT_ONCE: Final = 10
"""The kubelet's registryBurst: how many pulls may begin before the rate limits them."""

_MISSED_SECONDS: Final = 10.0
"""How long a missed image is remembered: as long as the first back-off of a pull."""


@dataclass(frozen=True)
class PullSettings:
    """How a node pulls images."""

    at_once: int = 1
    """maxParallelImagePulls; one after the other by default (serializeImagePulls)."""
    verification: Verification = field(default_factory=Verification)
    registry_auth_file: Path | None = None
    """The file of the node's own credentials, in the format of docker's `config.json`; None if it has none."""


class Pulls:
    """The pulls of one node, and its records of them. Made once, in the worker's event loop; reads files then."""

    def __init__(self, state_dir: Path, settings: PullSettings) -> None:
        self.records = PullRecords(state_dir, settings.verification)
        self.node_credentials = NodeCredentials(settings.registry_auth_file)
        self.rate = RateLimit(PULLS_PER_SECOND, PULLS_AT_ONCE)
        self.under_way = 0
        """How many pulls are running."""
        self.ended = 0
        """How many pulls have ended: while this stays the same, no pull has brought an image."""
        self.tells_bytes = True
        """Whether the runtime reports the progress of downloads; True until a request has shown otherwise."""
        self._missed: dict[tuple[str, str, str], float] = {}
        self._slots = asyncio.Semaphore(settings.at_once)
        self._images: dict[str, _Queue] = {}

    def miss(self, uid: str, container: str, image: str) -> None:
        """Note that a container could not start without an image that had just been pulled for this start."""
        now = monotonic()
        self._missed = {key: at for key, at in self._missed.items() if now - at < _MISSED_SECONDS}
        self._missed[uid, container, image] = now

    def was_missed(self, uid: str, container: str, image: str) -> bool:
        """Return whether `miss` was called just now. The result is True only once, so the next pull may go ahead."""
        at = self._missed.pop((uid, container, image), None)
        return at is not None and monotonic() - at < _MISSED_SECONDS

    @asynccontextmanager
    async def turn(self, holder: Holder, reference: str) -> AsyncIterator[None]:
        """Hold a turn to pull an image for the block.

        Turns are given in the order of the requests, and only one at a time for each image. So the next in line finds
        the image present, and two pods cause one pull. Raises the errors of `holder.interruptible`.
        """
        queue = self._images.setdefault(reference, _Queue())
        queue.wanted += 1
        try:
            await holder.interruptible(queue.lock.acquire())
            try:
                await holder.interruptible(self._slots.acquire())
                self.under_way += 1
                try:
                    yield
                finally:
                    self.under_way -= 1
                    self.ended += 1
                    self._slots.release()
            finally:
                queue.lock.release()
        finally:
            queue.wanted -= 1
            if not queue.wanted:
                del self._images[reference]


@dataclass
class _Queue:
    """The lock of the pulls of one image, and how many of them hold it or wait for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


class RateLimit:
    """A bucket of tokens, full at first (client-go's flowcontrol, TryAccept)."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._filled = monotonic()

    def accept(self, now: float | None = None) -> bool:
        """Take a token, if there is one; `now` is monotonic, in seconds."""
        at = monotonic() if now is None else now
        self._tokens = min(self._burst, self._tokens + max(0.0, at - self._filled) * self._per_second)
        self._filled = at
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
