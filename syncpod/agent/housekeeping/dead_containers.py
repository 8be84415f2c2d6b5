"""Container garbage collection: removes dead containers with their logs, and old sandboxes.

The newest container of each name and the newest sandbox are kept.

All pods are checked once a minute. A pod whose container has just died is checked `SETTLE_SECONDS` later: by then the
restart has usually removed the dead container. :mod:`syncpod.lifecycle.container_gc` chooses the containers to remove.
The removals run between the pod's steps (`activities.between.collection` explains why they race with no step).

Mirrors kuberuntime/kuberuntime_gc.go, v1.36, GarbageCollect, and pod_container_deletor.go. Differences: each pod has a
task of its own, so a hanging removal delays neither the next round nor the other pods, four of which are processed at
once. The runtime is not called if there is nothing to remove. The removal of a container that no decision depends on is
not signalled to the workflow, because each such signal would cost four history events.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from syncpod.agent import metrics
from syncpod.agent.background import cancel_all, until_due
from syncpod.agent.record_cache import RecordCache
from syncpod.cri.errors import CriError
from syncpod.kernel.os_errors import where_and_why
from syncpod.lifecycle.container_gc import (
    ContainerGcPolicy,
    is_dead,
    superfluous_containers,
    superfluous_sandboxes,
)
from syncpod.lifecycle.observed import ObservedPod
from syncpod.node.pod_records import PodRecord
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory

log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 3.0
"""Seconds from an exit until the pod is checked: usually the container restarts at once, which removes the dead one."""
NEVER_STARTED_SECONDS: Final = 300.0
"""Seconds in state created after which a container counts as never started. A step that creates and starts it makes two
calls of at most two minutes each."""
_AT_ONCE: Final = 4
"""How many pods are processed at a time: more concurrent calls would slow down the pods' steps."""
_TICK: Final = 0.5
"""Seconds between two checks whether an evicted pod has ended."""


class Collector(Protocol):
    """Removes containers and sandboxes. Implemented by `activities.between.collection.Collector`."""

    async def collect(self, uid: str, choose: Callable[[ObservedPod], Collection[str]]) -> tuple[int, int]:
        """Remove the ids that `choose` returns; return how many containers and sandboxes. Raises CriError, OSError."""

    async def empty(self, uid: str) -> bool:
        """Remove the volumes of an evicted pod that has ended; say whether they are removed. Raises as `collect`."""


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
        """Check the pods of `listings` each `period` seconds, by `policy`; remove with `collector`."""
        self._node = node
        self._collector = collector
        self._listings = listings
        self._policy = policy
        self._period = period
        self._now = now
        self._ended = RecordCache(node, _ended)
        self._created_since: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._news = asyncio.Event()
        """Set when a pod may be due sooner than planned."""
        self._complaints: dict[str, str] = {}
        self._emptied: set[str] = set()
        """UIDs of evicted pods whose volumes are removed."""
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._under_way: dict[str, asyncio.Task[int]] = {}
        self.total = 0
        """How many containers and sandboxes this worker has removed."""

    async def run(self) -> None:
        """Collect until cancelled; then cancel the removals under way."""
        next_round = time.monotonic()
        try:
            while True:
                if time.monotonic() >= next_round:
                    next_round = time.monotonic() + self._period
                    await self._begin_round()
                self._begin_after_exits()
                due = (at for uid, at in self._due.items() if uid not in self._under_way)
                await until_due((next_round, *due), self._news)
        finally:
            await cancel_all(self._under_way.values())

    def observe(self, listing: ObservedPod) -> None:
        """Take a changed listing: a pod with too many dead instances is checked after `SETTLE_SECONDS`."""
        if self._superfluous([listing], set()):
            self._due.setdefault(listing.uid, time.monotonic() + SETTLE_SECONDS)
            self._news.set()

    async def round(self, *, seconds: float, finished_too: bool = False) -> int:
        """Collect once; wait at most `seconds`, and return how many containers and sandboxes were removed in that time.

        Other removals continue. A failure is logged only when its reason changes. With `finished_too`, remove all
        containers of finished pods (DeleteAllUnusedContainers).
        """
        tasks = await self._begin_round(finished_too=finished_too)
        if not tasks:
            return 0
        done, _ = await asyncio.wait(tasks, timeout=seconds)
        return sum(task.result() for task in done if not task.cancelled())

    async def _begin_round(self, *, finished_too: bool = False) -> tuple[asyncio.Task[int], ...]:
        """Return a task for each pod that has something to remove: a new one, or the one that already runs."""
        try:
            ended = await asyncio.to_thread(self._ended.read)
        except OSError as error:
            log.warning("the pods' records cannot be read, so the last containers of evicted pods stay: %s", error)
            ended = {}
        listings = tuple(self._listings())
        never_started = self._never_started(listings)
        evicted = {uid for uid, how in ended.items() if how == "evicted"}
        over = frozenset(ended) if finished_too else frozenset(evicted)
        chosen = self._superfluous(listings, over, never_started)
        pods = {each.uid: each for each in listings if each.uid in chosen or superfluous_sandboxes(each)}
        self._emptied &= evicted
        to_empty = evicted - self._emptied
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

    async def wait_for_cleanup(self, uid: str, *, seconds: float) -> bool:
        """Wait until an evicted pod has ended, and remove its volumes; say whether both happened within `seconds`.

        Returns True as soon as the whole pod is gone. Mirrors eviction_manager.go, v1.36, waitForPodsCleanup.
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
        """Start processing the pods that are due; a pod whose task still runs stays due until the task has ended."""
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
        """Return a task that processes a pod: a new one, or the one that already runs."""
        if uid in self._under_way:
            return self._under_way[uid]

        async def process() -> int:
            async with self._slots:
                removed = await self._collect(listing, over, never_started, for_the_limit) if listing else 0
                if empty:
                    await self._empty(uid)
                return removed

        task = asyncio.create_task(process(), name=f"collection in {uid}")
        self._under_way[uid] = task
        task.add_done_callback(partial(self._has_ended, uid))
        return task

    def _has_ended(self, uid: str, task: asyncio.Task[int]) -> None:
        del self._under_way[uid]
        self._news.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("dead containers of pod %s stay for now because of a defect", uid, exc_info=error)

    async def _empty(self, uid: str) -> None:
        """Remove the volumes of an evicted pod that has ended. Logs errors."""
        try:
            emptied = await self._collector.empty(uid)
        except (CriError, OSError) as error:
            log.warning("the volumes of the evicted pod %s stay for now: %s", uid, error)
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
        """Collect in one pod. `for_the_limit` has the ids that the limit for the whole node selects among all pods."""

        def choose(view: ObservedPod) -> Collection[str]:
            newest = {each.id for each in view.newest_by_name().values()} if view.uid not in over else set()
            own = self._superfluous([view], over, never_started, in_all=-1).get(view.uid, ())
            return {*own, *(for_the_limit - newest), *superfluous_sandboxes(view)}

        try:
            containers, sandboxes = await self._collector.collect(listing.uid, choose)
        except (CriError, OSError) as error:
            self._complain(listing, where_and_why(error))
            self._due.setdefault(listing.uid, time.monotonic() + SETTLE_SECONDS)
            return 0
        self._complaints.pop(listing.uid, None)
        if containers or sandboxes:
            log.info(
                "removed %d dead containers and %d old sandboxes of pod %s/%s",
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
        """Return the ids of containers that have been in state created for `NEVER_STARTED_SECONDS`."""
        now = time.monotonic()
        created = {c.id for listing in listings for c in listing.containers if c.state == "created"}
        self._created_since = {id_: self._created_since.get(id_, now) for id_ in created}
        return frozenset(id_ for id_, since in self._created_since.items() if now - since >= NEVER_STARTED_SECONDS)

    def _complain(self, listing: ObservedPod, why: str) -> None:
        if self._complaints.get(listing.uid) != why:
            log.warning(
                "ContainerGCFailed: dead containers of pod %s/%s stay for now: %s", listing.namespace, listing.name, why
            )
        self._complaints[listing.uid] = why


def _ended(record: PodRecord) -> str | None:
    """Return how the pod has ended according to its record; None if it has not."""
    if not record.finished:
        return None
    return "evicted" if record.evicted else "finished"
