"""Removes what is left of pods that are gone: sandboxes, cgroup, volumes, logs and the pod's directory.

A pod's own workflow removes all of it at its end. Something is left only where that workflow was ended from outside.
What counts as gone is what has nothing alive in the runtime, and had not for some minutes, and no open workflow:

- where the runtime has nothing of it at all, and its record names this Temporal cluster: no workflow of its name is
  open, or it is of another pod.
- where dead containers or sandboxes are left: its own workflow has ended, or its name is another pod's. That the server
  does not know of a workflow is no evidence against what is still in the runtime.

Mirrors kubelet_pods.go, v1.36, HandlePodCleanups (directories and volumes of vanished pods) and kuberuntime_gc.go,
evictPodLogsDirectories. Difference: what has no record of ours is left alone, since it may be a kubelet's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from temporalio.service import RPCError

from syncpod.agent import metrics
from syncpod.agent.housekeeping.dead_containers import Collector
from syncpod.agent.housekeeping.pod_workflows import PodWorkflows, unaccounted
from syncpod.agent.record_cache import RecordCache
from syncpod.cri.errors import CriError
from syncpod.lifecycle.container_gc import is_dead
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages import PodRef
from syncpod.node.pod_records import PodRecord
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

CLEAR_SECONDS: Final = 30.0
"""How long the removal of pods' remains is waited for before the node is looked at again."""
_AT_ONCE: Final = 8


class GonePods:
    """The removal of gone pods' remains on one node. All methods belong to one event loop."""

    def __init__(
        self,
        node: NodeContext,
        workflows: PodWorkflows,
        collector: Collector,
        listings: Callable[[], Iterable[ObservedPod]],
        *,
        period: float = 60.0,
        min_age: float = 300.0,
    ) -> None:
        """Look each `period` seconds for pods of which for `min_age` seconds nothing was alive."""
        self._workflows = workflows
        self._collector = collector
        self._listings = listings
        self._period = period
        self._min_age = min_age
        self._noted = RecordCache(node, lambda record: _ref(record, node.cluster))
        self._dead_since: dict[str, float] = {}
        self._clearing: dict[str, asyncio.Task[bool]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._complaints: dict[str, str] = {}
        self._obstacle = ""
        self.total = 0
        """Pods whose remains were removed in this life."""

    async def run(self) -> None:
        """Look for ever. What is under way when this ends is given up."""
        try:
            while True:
                await asyncio.sleep(self._period)
                await self.round()
        finally:
            given_up = tuple(self._clearing.values())
            self._clearing.clear()
            for task in given_up:
                task.cancel()
            await asyncio.gather(*given_up, return_exceptions=True)

    async def round(self) -> int:
        """Look once; return how many pods' remains are removed since the last look.

        What takes longer than :data:`CLEAR_SECONDS` goes on beside the next looks. While the server does not answer,
        nothing is begun.
        """
        try:
            noted = await asyncio.to_thread(self._noted.read)
            due = self._long_dead(noted)
            gone = unaccounted((noted[uid] for uid in due), await self._workflows.open()) if due else ()
        except RPCError as error:
            log.debug("gone pods are not looked for: %s", error)
            return 0
        except OSError as error:
            if str(error) != self._obstacle:
                log.warning("the pods' records cannot be read, so gone pods are not looked for: %s", error)
            self._obstacle = str(error)
            return 0
        self._obstacle = ""
        for ref in gone:
            if ref.uid not in self._clearing:
                self._clearing[ref.uid] = asyncio.create_task(self._clear(ref), name=f"clear {ref.uid}")
        if self._clearing:
            await asyncio.wait(self._clearing.values(), timeout=CLEAR_SECONDS)
        ended = [uid for uid, task in self._clearing.items() if task.done()]
        removed = sum(_outcome(uid, self._clearing.pop(uid)) for uid in ended)
        metrics.collected("pod", removed)
        self.total += removed
        return removed

    async def _clear(self, ref: PodRef) -> bool:
        """Remove what is left of one pod; say whether it is removed."""
        try:
            async with self._slots:
                cleared = await self._collector.clear(ref.uid, self._is_gone)
        except (RPCError, CriError, OSError) as error:
            self._complain(ref, str(error))
            return False
        if cleared:
            log.info("removed what was left of pod %s/%s (uid %s), which is gone", ref.namespace, ref.name, ref.uid)
        return cleared

    def _long_dead(self, noted: dict[str, PodRef]) -> tuple[str, ...]:
        """Return the UIDs of pods of which nothing has been alive for long enough."""
        now = time.monotonic()
        listed = {listing.uid: listing for listing in self._listings()}
        dead = [uid for uid in noted if uid not in listed or is_dead(listed[uid])]
        self._dead_since = {uid: self._dead_since.get(uid, now) for uid in dead}
        return tuple(uid for uid, since in self._dead_since.items() if now - since >= self._min_age)

    async def _is_gone(self, ref: PodRef, in_runtime: bool) -> bool:
        standing = await self._workflows.standing(ref)
        return standing in ("closed", "another") or (standing == "unknown" and not in_runtime)

    def _complain(self, ref: PodRef, why: str) -> None:
        if self._complaints.get(ref.uid) != why:
            log.warning("what is left of pod %s/%s, which is gone, stays for now: %s", ref.namespace, ref.name, why)
        self._complaints[ref.uid] = why


def _outcome(uid: str, task: asyncio.Task[bool]) -> bool:
    """Return whether a task that has ended has removed a pod's remains; one that has failed has not, and it is said."""
    if task.cancelled():
        return False
    error = task.exception()
    if error is None:
        return task.result()
    log.error("what is left of pod %s, which is gone, stays for now, for a fault of ours", uid, exc_info=error)
    return False


def _ref(record: PodRecord, cluster: str) -> PodRef | None:
    """Return which pod a record is of; None where its workflow is another Temporal cluster's, or nobody says whose."""
    if record.cluster != cluster:
        return None
    meta = record.pod.metadata
    return PodRef(namespace=meta.namespace, name=meta.name, uid=meta.uid, incarnation=record.incarnation)
