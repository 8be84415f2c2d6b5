"""Removes what is left of pods that are gone: sandboxes, cgroup, volumes, logs and the pod's directory.

A pod's own workflow has all of this removed when it ends. Something is left only if the workflow was ended from
outside, or if the worker died just then. A pod counts as gone if nothing of it has been alive in the runtime for some
minutes, or the node has noted that its life is over, and it has no open workflow:

- If the runtime has nothing of the pod at all, and its record names this Temporal cluster: no workflow of its name is
  open, or the open one is another pod's.
- If dead containers or sandboxes are left: its own workflow has ended, or its name is another pod's. If the server
  merely does not know its workflow, that does not prove that the pod is gone.

Mirrors kubelet_pods.go, v1.36, HandlePodCleanups (directories and volumes of vanished pods) and kuberuntime_gc.go,
evictPodLogsDirectories. Difference: whatever has no record of ours is left alone, since it may be a kubelet's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from temporalio.service import RPCError

from syncpod.agent import metrics
from syncpod.agent.background import cancel_all
from syncpod.agent.housekeeping.dead_containers import Collector
from syncpod.agent.pod_workflows import PodWorkflows, without_workflow
from syncpod.agent.record_cache import RecordCache
from syncpod.cri.errors import CriError
from syncpod.lifecycle.container_gc import is_dead
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import PodRef
from syncpod.node.deleted_pods import deleted_at
from syncpod.node.pod_records import PodRecord
from syncpod.node.report import Remains
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

CLEAR_SECONDS: Final = 30.0
"""How long the removal of pods' remains is waited for before the next round."""
_AT_ONCE: Final = 8


class GonePods:
    """Removes the remains of gone pods on one node. All methods belong to one event loop."""

    def __init__(
        self,
        node: NodeContext,
        workflows: PodWorkflows,
        collector: Collector,
        listings: Callable[[], Iterable[ObservedPod]],
        *,
        period: float = 60.0,
        min_age: float = 300.0,
        on_remains: Callable[[tuple[Remains, ...]], None] = lambda remains: None,
    ) -> None:
        """Every `period` seconds, look for pods that have had nothing alive for `min_age` seconds.

        `on_remains` is called after each round with what cannot be removed, and why.
        """
        self._on_remains = on_remains
        self._node = node
        self._workflows = workflows
        self._collector = collector
        self._listings = listings
        self._period = period
        self._min_age = min_age
        self._noted = RecordCache(node, lambda record: _ref(record, node.cluster))
        self._dead_since: dict[str, float] = {}
        self._clearing: dict[str, asyncio.Task[bool]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._stays: dict[str, Remains] = {}
        self._obstacle = ""
        self.total = 0
        """How many pods' remains this worker has removed."""

    async def run(self) -> None:
        """Look until cancelled; then cancel what is under way."""
        try:
            while True:
                await self.round()  # at once: the last worker may have died before it had removed what was left to it
                await asyncio.sleep(self._period)
        finally:
            under_way = tuple(self._clearing.values())
            self._clearing.clear()
            await cancel_all(under_way)

    async def round(self) -> int:
        """Look once; return how many pods' remains were removed since the last round.

        Removals that take longer than :data:`CLEAR_SECONDS` continue during the next rounds. While the server does not
        answer, none is started.
        """
        try:
            noted = await asyncio.to_thread(self._noted.read)
            dead = self._dead(noted)
            over = await asyncio.to_thread(self._over, dead)
            due = tuple(ref.uid for ref in dead if ref.uid in over or self._is_long_dead(ref.uid))
            gone = without_workflow((noted[uid] for uid in due), await self._workflows.open()) if due else ()
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
        self._stays = {uid: each for uid, each in self._stays.items() if uid in noted}
        self._on_remains(tuple(self._stays.values()))
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
            self._stays.pop(ref.uid, None)
            log.info("removed the remains of pod %s/%s (uid %s), which is gone", ref.namespace, ref.name, ref.uid)
        return cleared

    def _dead(self, noted: dict[str, PodRef]) -> tuple[PodRef, ...]:
        """Return the pods that have nothing alive, and remember since when."""
        now = time.monotonic()
        listed = {listing.uid: listing for listing in self._listings()}
        dead = [uid for uid in noted if uid not in listed or is_dead(listed[uid])]
        self._dead_since = {uid: self._dead_since.get(uid, now) for uid in dead}
        return tuple(noted[uid] for uid in dead)

    def _is_long_dead(self, uid: str) -> bool:
        return time.monotonic() - self._dead_since[uid] >= self._min_age

    def _over(self, dead: Iterable[PodRef]) -> set[str]:
        """Return the UIDs of those whose life is noted as over. Blocks."""
        return {ref.uid for ref in dead if deleted_at(self._node, ref.uid, ref.incarnation) is not None}

    async def _is_gone(self, ref: PodRef, in_runtime: bool) -> bool:
        standing = await self._workflows.standing(ref)
        return standing in ("closed", "another") or (standing == "unknown" and not in_runtime)

    def _complain(self, ref: PodRef, why: str) -> None:
        stays = Remains(namespace=ref.namespace, name=ref.name, uid=ref.uid, why=why)
        if self._stays.get(ref.uid) != stays:
            log.warning("the remains of pod %s/%s, which is gone, stay for now: %s", ref.namespace, ref.name, why)
        self._stays[ref.uid] = stays


def _outcome(uid: str, task: asyncio.Task[bool]) -> bool:
    """Return whether an ended task has removed its pod's remains; log a task that failed with a defect."""
    if task.cancelled():
        return False
    error = task.exception()
    if error is None:
        return task.result()
    log.error("the remains of pod %s, which is gone, stay for now because of a defect", uid, exc_info=error)
    return False


def _ref(record: PodRecord, cluster: str) -> PodRef | None:
    """Return the pod of a record.

    None if its workflow belongs to another Temporal cluster, or to an unknown one.
    """
    if record.cluster != cluster:
        return None
    meta = record.pod.metadata
    return PodRef(namespace=meta.namespace, name=meta.name, uid=meta.uid, incarnation=record.incarnation)
