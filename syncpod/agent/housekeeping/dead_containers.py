"""Removes dead containers, with their logs, and sandboxes that are spent: all but the newest of each.

Each minute all pods are looked at; a pod whose container has just died is looked at moments later, unless its restart
has tidied up by then. What goes is decided in :mod:`syncpod.lifecycle.container_gc`, and goes between the pod's steps
(`activities.between.collection`, which says why that races with none).

Mirrors kuberuntime/kuberuntime_gc.go, v1.36, GarbageCollect, and pod_container_deletor.go. Differences: each pod is
seen to in a task of its own, so that one whose removal hangs holds up neither the others, of which four are seen to at
once, nor the next look; nothing is asked of the runtime while there is nothing to remove; and the workflow is not told
that what it looks at no more is gone, which would be four events of history for each.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from syncpod.agent import metrics
from syncpod.agent.record_cache import RecordCache
from syncpod.cri.errors import CriError
from syncpod.lifecycle.container_gc import (
    ContainerGcPolicy,
    is_dead,
    superfluous_containers,
    superfluous_sandboxes,
)
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages import PodRef
from syncpod.node.pod_records import PodRecord
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory

log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 3.0
"""How long a pod is left alone after an exit: most restart at once, and the restart removes what it supersedes."""
NEVER_STARTED_SECONDS: Final = 300.0
"""For how long a container has to be seen created before nobody can be about to start it: a step creates and starts it
in calls of two minutes each."""
_AT_ONCE: Final = 4
"""How many pods are seen to at a time: more calls at once would keep the runtime from the pods' steps."""
_TICK: Final = 0.5


class Collector(Protocol):
    """Who removes: `activities.between.collection.Collector`."""

    async def collect(self, uid: str, choose: Callable[[ObservedPod], Collection[str]]) -> tuple[int, int]:
        """Remove what `choose` takes by id; return how many containers and sandboxes. Raises CriError, OSError."""

    async def empty(self, uid: str) -> bool:
        """Remove the volumes of a pod that was put out and has ended; say whether they are. Raises as `collect`."""

    async def clear(self, uid: str, is_gone: Callable[[PodRef, bool], Awaitable[bool]]) -> bool:
        """Remove all that is left of a pod that is gone; say whether it is removed. Raises CriError, OSError."""


class ContainerGc:
    """Container garbage collection on one node. All methods belong to one event loop."""

    def __init__(
        self,
        node: NodeContext,
        collector: Collector,
        listings: Callable[[], Iterable[ObservedPod]],
        policy: ContainerGcPolicy,
        *,
        period: float = 60.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Look each `period` seconds at what `listings` has."""
        self._node = node
        self._collector = collector
        self._listings = listings
        self._policy = policy
        self._period = period
        self._now = now
        self._ended = RecordCache(node, _ended)
        self._created_since: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._complaints: dict[str, str] = {}
        self._emptied: set[str] = set()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._under_way: dict[str, asyncio.Task[int]] = {}
        self.total = 0
        """Containers and sandboxes removed in this life."""

    async def run(self) -> None:
        """Collect for ever. What is under way when this ends is given up."""
        next_round = time.monotonic()
        try:
            while True:
                if time.monotonic() >= next_round:
                    next_round = time.monotonic() + self._period
                    await self._begin_round()
                self._begin_after_exits()
                await asyncio.sleep(_TICK)
        finally:
            given_up = tuple(self._under_way.values())
            for task in given_up:
                task.cancel()
            await asyncio.gather(*given_up, return_exceptions=True)

    def observe(self, listing: ObservedPod) -> None:
        """Hear of a new listing: one with more dead instances than are kept is seen to shortly."""
        if self._superfluous([listing], set()):
            self._due.setdefault(listing.uid, time.monotonic() + SETTLE_SECONDS)

    async def round(self, *, seconds: float, finished_too: bool = False) -> int:
        """Collect once, and wait for it so many seconds at most; return how much was removed by then.

        What could not be is said once for as long as it is the same; what takes longer goes on. `finished_too`: of pods
        that have finished nothing is kept (DeleteAllUnusedContainers).
        """
        tasks = await self._begin_round(finished_too=finished_too)
        if not tasks:
            return 0
        done, _ = await asyncio.wait(tasks, timeout=seconds)
        return sum(task.result() for task in done if not task.cancelled())

    async def _begin_round(self, *, finished_too: bool = False) -> tuple[asyncio.Task[int], ...]:
        """Begin to see to all pods of which something may go; return the tasks that do, older ones among them."""
        try:
            ended = await asyncio.to_thread(self._ended.read)
        except OSError as error:
            log.warning("the pods' records cannot be read, so of those put out one of each stays: %s", error)
            ended = {}
        listings = tuple(self._listings())
        never_started = self._never_started(listings)
        put_out = {uid for uid, how in ended.items() if how == "evicted"}
        over = frozenset(ended) if finished_too else frozenset(put_out)
        chosen = self._superfluous(listings, over, never_started)
        pods = {each.uid: each for each in listings if each.uid in chosen or superfluous_sandboxes(each)}
        self._emptied &= put_out
        to_empty = put_out - self._emptied
        return tuple(
            self._begin(
                uid,
                pods.get(uid),
                over=over,
                never_started=never_started,
                for_the_limit=frozenset(chosen.get(uid, ())),
                empty=uid in to_empty,
            )
            for uid in dict.fromkeys((*pods, *sorted(to_empty)))
        )

    async def tidy_after(self, uid: str, *, seconds: float) -> bool:
        """Wait for the end of a pod that is put out, and remove all it has written; say whether that is done.

        It is waited for no longer than so many seconds; of one that somebody removes whole, nothing is. Mirrors
        eviction_manager.go, v1.36, waitForPodsCleanup.
        """
        until = time.monotonic() + seconds
        self._emptied.discard(uid)
        while time.monotonic() < until:
            await asyncio.sleep(_TICK)
            listing = next((each for each in self._listings() if each.uid == uid), None)
            if listing is None and not await asyncio.to_thread(pod_directory(self._node, uid).exists):
                return True
            if listing is None or is_dead(listing):
                task = self._begin(uid, listing, over=frozenset({uid}), empty=True)
                await asyncio.wait([task], timeout=max(0.0, until - time.monotonic()))
                if uid in self._emptied:
                    return True
        return False

    def _begin_after_exits(self) -> None:
        """Begin to see to the pods that are due; one that is being seen to stays due until then."""
        now = time.monotonic()
        for uid in [uid for uid, at in self._due.items() if at <= now and uid not in self._under_way]:
            del self._due[uid]
            listing = next((each for each in self._listings() if each.uid == uid), None)
            if listing is not None:
                self._begin(uid, listing)

    def _begin(
        self,
        uid: str,
        listing: ObservedPod | None,
        *,
        over: Collection[str] = (),
        never_started: Collection[str] = (),
        for_the_limit: frozenset[str] = frozenset(),
        empty: bool = False,
    ) -> asyncio.Task[int]:
        """Have a pod seen to in a task of its own, unless it is being seen to; return the task that does."""
        if uid in self._under_way:
            return self._under_way[uid]

        async def see_to() -> int:
            async with self._slots:
                removed = await self._collect(listing, over, never_started, for_the_limit) if listing else 0
                if empty:
                    await self._empty(uid)
                return removed

        task = asyncio.create_task(see_to(), name=f"collection in {uid}")
        self._under_way[uid] = task
        task.add_done_callback(partial(self._has_ended, uid))
        return task

    def _has_ended(self, uid: str, task: asyncio.Task[int]) -> None:
        del self._under_way[uid]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("what is dead of pod %s stays for now, for a fault of ours", uid, exc_info=error)

    async def _empty(self, uid: str) -> None:
        """Remove the volumes of a pod that was put out, once it has ended. What stands in the way is said."""
        try:
            emptied = await self._collector.empty(uid)
        except (CriError, OSError) as error:
            log.warning("the volumes of pod %s, which was put out, stay for now: %s", uid, error)
            return
        if emptied:
            self._emptied.add(uid)

    async def _collect(
        self,
        listing: ObservedPod,
        over: Collection[str],
        never_started: Collection[str],
        for_the_limit: frozenset[str],
    ) -> int:
        """Collect in one pod; `for_the_limit` is chosen among all pods, which one alone cannot say."""

        def choose(view: ObservedPod) -> Collection[str]:
            newest = {each.id for each in view.newest_by_name().values()} if view.uid not in over else set()
            own = self._superfluous([view], over, never_started, in_all=-1).get(view.uid, ())
            return {*own, *(for_the_limit - newest), *superfluous_sandboxes(view)}

        try:
            containers, sandboxes = await self._collector.collect(listing.uid, choose)
        except (CriError, OSError) as error:
            self._complain(listing, str(error))
            return 0
        self._complaints.pop(listing.uid, None)
        if containers or sandboxes:
            log.info(
                "removed %d dead containers and %d spent sandboxes of pod %s/%s",
                *(containers, sandboxes, listing.namespace, listing.name),
            )
        metrics.collected("container", containers)
        metrics.collected("sandbox", sandboxes)
        self.total += containers + sandboxes
        return containers + sandboxes

    def _superfluous(
        self,
        listings: Iterable[ObservedPod],
        over: Collection[str],
        never_started: Collection[str] = (),
        *,
        in_all: int | None = None,
    ) -> dict[str, tuple[str, ...]]:
        policy = self._policy if in_all is None else replace(self._policy, in_all=in_all)
        return superfluous_containers(listings, policy, self._now(), over=over, never_started=never_started)

    def _never_started(self, listings: Iterable[ObservedPod]) -> frozenset[str]:
        """Return the containers that have been seen created for so long that nobody can be about to start them."""
        now = time.monotonic()
        created = {c.id for listing in listings for c in listing.containers if c.state == "created"}
        self._created_since = {id_: self._created_since.get(id_, now) for id_ in created}
        return frozenset(id_ for id_, since in self._created_since.items() if now - since >= NEVER_STARTED_SECONDS)

    def _complain(self, listing: ObservedPod, why: str) -> None:
        if self._complaints.get(listing.uid) != why:
            log.warning(
                "ContainerGCFailed: what is dead of pod %s/%s stays for now: %s", listing.namespace, listing.name, why
            )
        self._complaints[listing.uid] = why


def _ended(record: PodRecord) -> str | None:
    """Return how a pod's record says that it has ended, None where it goes on."""
    if not record.finished:
        return None
    return "evicted" if record.evicted else "finished"
