"""Ends all but the newest of several live containers with the same name.

No step creates a second container while the first one lives. But another CRI client may create one with our labels, or
the runtime may be restored from a copy. `syncpod.lifecycle.orphans.duplicates` chooses the containers to end. Two ready
sandboxes are resolved by the pod's own workflow (`syncpod.lifecycle.sandbox.pod_sandbox_changed`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from syncpod.agent import metrics
from syncpod.agent.background import cancel_all, until_due
from syncpod.cri.errors import CriError
from syncpod.kernel.os_errors import where_and_why
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.orphans import duplicates

log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 2.0
"""Seconds for which a pod may have duplicates before they are ended, and between two attempts to end them."""


class Ender(Protocol):
    """Ends containers between their pod's steps; see `activities.between.orphans`."""

    async def end_duplicates(
        self, uid: str, choose: Callable[[ObservedPod], Iterable[ObservedContainer]]
    ) -> tuple[int, str]:
        """End the containers that `choose` returns for a fresh listing.

        Returns how many have ended, and why the rest have not ("" = all have). Raises CriError, OSError.
        """


class Duplicates:
    """Watches one node for duplicates. All methods belong to one event loop."""

    def __init__(self, ender: Ender) -> None:
        """End duplicates with `ender`."""
        self._ender = ender
        self._due: dict[str, float] = {}
        self._listings: dict[str, ObservedPod] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        """Set when a pod may be due sooner than planned."""
        self._complaints: dict[str, str] = {}
        self.total = 0
        """How many containers this worker has ended."""

    def observe(self, listing: ObservedPod) -> None:
        """Take a new listing: a pod with duplicates is processed shortly."""
        if duplicates(listing):
            self._listings[listing.uid] = listing
            self._due.setdefault(listing.uid, time.monotonic() + SETTLE_SECONDS)
            self._news.set()
        else:
            self._listings.pop(listing.uid, None)
            self._due.pop(listing.uid, None)
            self._complaints.pop(listing.uid, None)

    async def run(self) -> None:
        """End duplicates until cancelled; then cancel the tasks. A StopContainer call in flight is completed."""
        try:
            while True:
                now = time.monotonic()
                for uid in [uid for uid, at in self._due.items() if at <= now and uid not in self._under_way]:
                    self._due[uid] = now + SETTLE_SECONDS
                    self._begin(uid)
                await until_due((at for uid, at in self._due.items() if uid not in self._under_way), self._news)
        finally:
            await cancel_all(self._under_way.values())

    def _begin(self, uid: str) -> None:
        task = asyncio.create_task(self._process(self._listings[uid]), name=f"duplicates in {uid}")
        self._under_way[uid] = task
        task.add_done_callback(lambda ended: self._has_ended(uid, ended))

    def _has_ended(self, uid: str, task: asyncio.Task[None]) -> None:
        del self._under_way[uid]
        self._news.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("duplicates in pod %s stay for now because of a defect", uid, exc_info=error)

    async def _process(self, listing: ObservedPod) -> None:
        called = f"pod {listing.namespace}/{listing.name}"
        try:
            ended, obstacle = await self._ender.end_duplicates(listing.uid, duplicates)
        except (CriError, OSError) as error:
            ended, obstacle = 0, where_and_why(error)
        if obstacle and self._complaints.get(listing.uid) != obstacle:
            log.warning("duplicates in %s stay for now: %s", called, obstacle)
        if obstacle or ended:
            self._complaints[listing.uid] = obstacle
        if ended:
            log.warning("ended %d containers of %s because a newer one of the same name runs", ended, called)
            metrics.collected("duplicate", ended)
            self.total += ended
