"""Removes the remains of pods: sandboxes, dead containers, cgroup, volumes and logs of lives that are over.

A life of a pod counts as over in one of two cases:

- It has a tombstone. A deleted pod's workflow completes as soon as its kill has ended all containers and the node has
  written the tombstone (`syncpod.node.tombstones`). The agent then removes the remains. (As a step, the removal would
  cost the server half as much as the rest of the deletion.) The kill of an orphan leaves a tombstone too. A new worker
  finds the remains that the previous worker left, by the tombstones.
- It has no tombstone, because its workflow was terminated by another client. Then two conditions apply: nothing of the
  pod has been alive in the runtime for some minutes, and the pod has no open workflow. If dead containers or sandboxes
  are left, the server must also have a record that the pod's workflow has ended, or that its name is another pod's: a
  missing workflow alone does not prove that the pod is gone.

Mirrors kuberuntime_gc.go, pod_container_deletor.go and kubelet_pods.go, v1.36, HandlePodCleanups: there too, garbage
collection removes the remains of a pod, and nothing waits for it. Difference: a directory without a record of ours is
left alone, since it may be a kubelet's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from temporalio.service import RPCError

from syncpod.agent import metrics
from syncpod.agent.background import cancel_all
from syncpod.agent.pod_workflows import PodWorkflows, without_workflow
from syncpod.agent.record_cache import RecordCache
from syncpod.cri.errors import CriError
from syncpod.kernel.os_errors import where_and_why
from syncpod.lifecycle.container_gc import is_dead
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import EndedLife, PodRef
from syncpod.node.pod_records import PodRecord
from syncpod.node.report import Remains
from syncpod.node.tombstones import tombstone_at
from syncpod.temporal.workflow_watch import Published
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

PAUSES_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between the tries to remove the remains of a life that has just ended: its dead containers may be in
the middle of a collection, or the runtime may be away. After these tries each round tries once."""
ROUND_SECONDS: Final = 30.0
"""Seconds that a round waits for its removals."""
CLOSE_SECONDS: Final = 10.0
"""Seconds for which removals continue when the worker must end."""


class Remover(Protocol):
    """Removes the remains of one life. Implemented by `activities.between.collection.Collector`."""

    async def remove(self, life: EndedLife, is_gone: Callable[[PodRef, bool], Awaitable[bool]]) -> bool:
        """Remove the remains; False if a step or another task works on the pod, so that it must be tried again.

        `is_gone` is called for a life without a tombstone. Raises CriError, OSError, and the errors of `is_gone`.
        """


class _Noted(NamedTuple):
    """A pod that has a record on the node."""

    ref: PodRef
    is_ours: bool
    """Whether its workflow belongs to this Temporal cluster. Only then does the server's answer about it count."""

    @classmethod
    def by(cls, record: PodRecord, cluster: str) -> _Noted:
        """Return the pod of a record."""
        meta = record.pod.metadata
        ref = PodRef(namespace=meta.namespace, name=meta.name, uid=meta.uid, incarnation=record.incarnation)
        return cls(ref, record.cluster == cluster)


class Removals:
    """The removals of one node. All methods belong to one event loop."""

    def __init__(
        self,
        node: NodeContext,
        workflows: PodWorkflows,
        remover: Remover,
        listings: Callable[[], Iterable[ObservedPod]],
        *,
        period: float = 60.0,
        min_age: float = 300.0,
        on_gone: Callable[[PodRef], None] = lambda ref: None,
    ) -> None:
        """Every `period` seconds, look for pods that have had nothing alive for `min_age` seconds.

        `on_gone` is called with each removed pod.
        """
        self._node = node
        self._workflows = workflows
        self._remover = remover
        self._listings = listings
        self._period = period
        self._min_age = min_age
        self._on_gone = on_gone
        self._noted = RecordCache(node, lambda record: _Noted.by(record, node.cluster))
        self._dead_since: dict[str, float] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._stays: dict[str, Remains] = {}
        self.remains: tuple[Remains, ...] = ()
        """The remains that could not be removed by the end of the last round, each with the reason."""
        self._obstacle = ""
        self.total = 0
        """How many pods' remains this worker has removed."""

    def take(self, published: Published) -> None:
        """Begin to remove the remains of a pod whose workflow has just ended; steps that stop pods come first."""
        if published.ended_life is not None:
            self.remove(published.ended_life)

    def remove(self, life: EndedLife) -> None:
        """Begin to remove the remains of a life that has just ended."""
        self._begin(life, PAUSES_SECONDS)

    async def run(self) -> None:
        """Check until cancelled; then wait `CLOSE_SECONDS` for the removals under way, and cancel the others."""
        try:
            while True:
                await self.round()  # at once: the previous worker may have left remains
                await asyncio.sleep(self._period)
        finally:
            under_way = tuple(self._under_way.values())
            if under_way:
                await asyncio.wait(under_way, timeout=CLOSE_SECONDS)
            await cancel_all(under_way)

    async def round(self) -> int:
        """Check once; return how many pods' remains were removed meanwhile.

        Removals that take longer than :data:`ROUND_SECONDS` continue. While the server does not answer, no removal is
        started.
        """
        before = self.total
        try:
            noted = await asyncio.to_thread(self._noted.read)
            gone = await self._gone(noted)
        except RPCError as error:
            log.debug("remains of pods are not looked for: %s", error)
            return 0
        except OSError as error:
            if where_and_why(error) != self._obstacle:
                log.warning("the pods' records cannot be read, so remains of pods are not looked for: %s", error)
            self._obstacle = where_and_why(error)
            return 0
        self._obstacle = ""
        for ref in gone:
            self._begin(EndedLife(ref))
        if self._under_way:
            await asyncio.wait(tuple(self._under_way.values()), timeout=ROUND_SECONDS)
        self._stays = {uid: each for uid, each in self._stays.items() if uid in noted}
        self.remains = tuple(self._stays.values())
        return self.total - before

    # --- pods whose life is over --------------------------------------------------------------------------------------

    async def _gone(self, noted: dict[str, _Noted]) -> tuple[PodRef, ...]:
        """Return the pods whose life seems to be over. Raises RPCError."""
        dead = self._dead(noted)
        over = await asyncio.to_thread(self._with_tombstone, dead)
        due = [each.ref for each in dead if each in over or (each.is_ours and self._is_long_dead(each.ref.uid))]
        return without_workflow(due, await self._workflows.open()) if due else ()

    def _dead(self, noted: dict[str, _Noted]) -> tuple[_Noted, ...]:
        """Return the pods that have nothing alive, and note since when."""
        now = time.monotonic()
        listed = {listing.uid: listing for listing in self._listings()}
        dead = [uid for uid in noted if uid not in listed or is_dead(listed[uid])]
        self._dead_since = {uid: self._dead_since.get(uid, now) for uid in dead}
        return tuple(noted[uid] for uid in dead)

    def _is_long_dead(self, uid: str) -> bool:
        return time.monotonic() - self._dead_since[uid] >= self._min_age

    def _with_tombstone(self, dead: Iterable[_Noted]) -> set[_Noted]:
        """Return the pods in `dead` whose life has a tombstone. Blocks."""
        return {each for each in dead if tombstone_at(self._node, each.ref.uid, each.ref.incarnation) is not None}

    async def _is_gone(self, ref: PodRef, in_runtime: bool) -> bool:
        standing = await self._workflows.standing(ref)
        return standing in ("closed", "another") or (standing == "unknown" and not in_runtime)

    # --- one removal --------------------------------------------------------------------------------------------------

    def _begin(self, life: EndedLife, pauses: Sequence[float] = ()) -> None:
        """Remove the remains of a life in a task of its own, if it has none yet: a hanging removal delays no other."""
        uid = life.ref.uid
        if uid in self._under_way:
            return
        task = asyncio.create_task(self._remove(life, pauses), name=f"remove {uid}")
        self._under_way[uid] = task
        task.add_done_callback(lambda _: self._under_way.pop(uid, None))

    async def _remove(self, life: EndedLife, pauses: Sequence[float]) -> None:
        try:
            for pause in (0.0, *pauses):
                await asyncio.sleep(pause)
                if await self._tried(life):
                    return
                life = EndedLife(life.ref, life.stopped)  # its listing may no longer be true
        except Exception:
            log.exception("the remains of pod %s stay for now because of a defect", life.ref.uid)

    async def _tried(self, life: EndedLife) -> bool:
        """Try once; say whether the remains are removed."""
        ref = life.ref
        try:
            if not await self._remover.remove(life, self._is_gone):
                return False  # a step works on the pod
        except (RPCError, CriError, OSError) as error:
            self._complain(ref, where_and_why(error))
            return False
        self._stays.pop(ref.uid, None)
        self.total += 1
        metrics.collected("pod", 1)
        log.info("removed the remains of pod %s/%s (uid %s)", ref.namespace, ref.name, ref.uid)
        self._on_gone(ref)
        return True

    def _complain(self, ref: PodRef, why: str) -> None:
        stays = Remains(namespace=ref.namespace, name=ref.name, uid=ref.uid, why=why)
        if self._stays.get(ref.uid) != stays:
            log.warning("the remains of pod %s/%s (uid %s) stay for now: %s", ref.namespace, ref.name, ref.uid, why)
        self._stays[ref.uid] = stays
