"""Resolves two live containers of one name to one: the newest stays.

No step makes a second one while the first lives. Somebody else may have, by raw calls and our labels; or a runtime
that was restored from an image of itself. What is chosen is decided by `syncpod.lifecycle.orphans.duplicates`; two
ready sandboxes are resolved by the pod's own workflow (`syncpod.lifecycle.sandbox.pod_sandbox_changed`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from syncpod.agent import metrics
from syncpod.cri.errors import CriError
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.orphans import duplicates

log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 2.0
"""How long a pod is given to come out with one of each name by itself; also until it is looked at once more."""
_TICK: Final = 0.25


class Ender(Protocol):
    """Ends containers between their pod's steps; see `activities.between.orphans`."""

    async def end_duplicates(
        self, uid: str, choose: Callable[[ObservedPod], Iterable[ObservedContainer]]
    ) -> tuple[int, str]:
        """End what `choose` takes of a fresh listing; return how many have ended, and what stands in the way.

        Raises CriError, OSError.
        """


class Duplicates:
    """Watches one node for them. All methods belong to one event loop."""

    def __init__(self, ender: Ender) -> None:
        """End them by `ender`."""
        self._ender = ender
        self._due: dict[str, float] = {}
        self._listings: dict[str, ObservedPod] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._complaints: dict[str, str] = {}
        self.total = 0
        """Containers ended in this life."""

    def observe(self, listing: ObservedPod) -> None:
        """Hear of a new listing: a pod with duplicates is seen to shortly."""
        if duplicates(listing):
            self._listings[listing.uid] = listing
            self._due.setdefault(listing.uid, time.monotonic() + SETTLE_SECONDS)
        else:
            self._listings.pop(listing.uid, None)
            self._due.pop(listing.uid, None)
            self._complaints.pop(listing.uid, None)

    async def run(self) -> None:
        """See to them for ever. What is under way when this ends is given up; the stops that were sent go on."""
        try:
            while True:
                now = time.monotonic()
                for uid in [uid for uid, at in self._due.items() if at <= now and uid not in self._under_way]:
                    self._due[uid] = now + SETTLE_SECONDS
                    self._begin(uid)
                await asyncio.sleep(_TICK)
        finally:
            given_up = tuple(self._under_way.values())
            for task in given_up:
                task.cancel()
            await asyncio.gather(*given_up, return_exceptions=True)

    def _begin(self, uid: str) -> None:
        task = asyncio.create_task(self._see_to(self._listings[uid]), name=f"duplicates in {uid}")
        self._under_way[uid] = task
        task.add_done_callback(lambda ended: self._has_ended(uid, ended))

    def _has_ended(self, uid: str, task: asyncio.Task[None]) -> None:
        del self._under_way[uid]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("duplicates in pod %s stay for now, for a fault of ours", uid, exc_info=error)

    async def _see_to(self, listing: ObservedPod) -> None:
        called = f"pod {listing.namespace}/{listing.name}"
        try:
            ended, obstacle = await self._ender.end_duplicates(listing.uid, duplicates)
        except (CriError, OSError) as error:
            ended, obstacle = 0, str(error)
        if obstacle and self._complaints.get(listing.uid) != obstacle:
            log.warning("duplicates in %s stay for now: %s", called, obstacle)
        if obstacle or ended:
            self._complaints[listing.uid] = obstacle
        if ended:
            log.warning("ended %d containers of %s beside which a newer one of the same name runs", ended, called)
            metrics.collected("duplicate", ended)
            self.total += ended
