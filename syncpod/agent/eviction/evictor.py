"""The eviction manager: evicts pods, one at a time, when the node runs out of memory, disk space or process ids.

Every ten seconds it measures these resources and compares them with thresholds (:mod:`syncpod.lifecycle.eviction`).
When a threshold is met, it first reclaims resources at the node level if that helps: it removes dead containers and
unused images. If that is not enough, it signals `evict` to the pod that the kubelet would choose
(:mod:`syncpod.lifecycle.eviction_ranking`), and the pod's workflow ends the pod. Before the next measurement it waits
until that pod has ended and its files are removed, so that no second pod is evicted for the same shortage. The wait is
limited: one and a half times the pod's grace period, at least ten seconds, plus :data:`CLEANUP_SECONDS`.

Mirrors eviction/eviction_manager.go, v1.36. Differences:

- Storage limits of single pods are watched separately (:mod:`syncpod.agent.eviction.storage_limits`).
- Memory is measured once per period; there is no kernel memory notifier.
- It waits at most :data:`RECLAIM_SECONDS` for the removal of dead containers or images, which continues after that.
- Reclaiming was enough if none of the thresholds that caused it is still met. The kubelet checks all configured
  thresholds. So it may evict a pod although the disk has recovered, only because memory is below a soft threshold whose
  grace period is not over.
- One limit covers both the pod's end and its cleanup; the kubelet starts a second one for the cleanup.
- The kubelet's events about the Node are warnings in the log, and the node's conditions are a report on disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from temporalio.service import RPCError

from syncpod.agent import metrics
from syncpod.agent.background import cancel_all
from syncpod.agent.eviction.node_pressure import NodePressure
from syncpod.agent.eviction.observations import NodeMeasurement
from syncpod.agent.eviction.shortage_usage import ActivePod, PodUsages
from syncpod.agent.storage.image_gc import ImageGcFailed
from syncpod.cri.errors import CriError
from syncpod.lifecycle.eviction import (
    RESOURCES,
    EvictionPolicy,
    NodeCondition,
    Pressure,
    PressureState,
    Signal,
    Threshold,
    grace_seconds,
    look,
    thresholds_met,
)
from syncpod.lifecycle.eviction_ranking import eviction_message, ranked
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import Evict

log = logging.getLogger(__name__)

CLEANUP_SECONDS: Final = 30.0
"""podCleanupTimeout: seconds that the removal of an evicted pod's files may take before another pod is evicted."""

RECLAIM_SECONDS: Final = 30.0
"""Seconds to wait for the removal of dead containers, and again for that of images, before a pod is evicted."""

Send = Callable[[PodRef, Evict], Awaitable[bool]]
"""Signals a pod; returns whether its workflow is open. Raises RPCError if the server does not answer."""
Reclaim = Callable[[], Awaitable[object]]
"""Frees unused resources of the node. Raises CriError, OSError, ImageGcFailed."""


class WaitForCleanup(Protocol):
    """Waits for an evicted pod's cleanup.

    Implemented by :meth:`syncpod.agent.housekeeping.dead_containers.ContainerGc.wait_for_cleanup`.
    """

    async def __call__(self, uid: str, *, seconds: float) -> bool:
        """Wait until the pod has ended and its files are removed, at most `seconds`; return whether both happened."""


class Observations(Protocol):
    """Measures the node. Implemented by :class:`syncpod.agent.eviction.observations.NodeObservations`."""

    async def measure(self) -> NodeMeasurement:
        """Measure now; leave out signals that cannot be measured."""


class Evictor:
    """The eviction manager of one node. All methods belong to one event loop."""

    def __init__(
        self,
        policy: EvictionPolicy,
        observations: Observations,
        usages: PodUsages,
        send: Send,
        *,
        pressure: NodePressure,
        wait_for_cleanup: WaitForCleanup,
        reclaim: tuple[Reclaim, ...] = (),
        on_conditions: Callable[[tuple[NodeCondition, ...]], None] = lambda conditions: None,
        period: float = 10.0,
    ) -> None:
        """Signal pods with `send`, and wait for their end with `wait_for_cleanup`.

        When the node is short of disk space, each of `reclaim` is called in order before a pod is evicted. `pressure`
        gets the node's conditions after each measurement, and `on_conditions` is called with them when they have
        changed. `period` is in seconds.
        """
        self._policy = policy
        self._observations = observations
        self._usages = usages
        self._send = send
        self._wait_for_cleanup = wait_for_cleanup
        self._reclaim = reclaim
        self._reclaiming: dict[int, asyncio.Task[object]] = {}
        self._on_conditions = on_conditions
        self._period = period
        self._state = PressureState()
        self._pressure = pressure
        self._evicted: set[str] = set()
        self._warned = ""

    async def run(self) -> None:
        """Measure and act until cancelled; then cancel the reclaim functions under way.

        Returns at once if there are no thresholds.
        """
        try:
            while self._policy.thresholds:
                await self.round()
                await asyncio.sleep(self._period)
        finally:
            under_way = tuple(self._reclaiming.values())
            self._reclaiming.clear()
            await cancel_all(under_way)

    async def round(self) -> PodRef | None:
        """Measure and act once; return the pod that was evicted, None if there was none."""
        measured = await self._observations.measure()
        self._state, pressure = look(self._policy, self._state, measured.signals, time.monotonic())
        self._take_pressure(pressure)
        if not pressure.thresholds:
            self._warned = ""
            return None
        first = pressure.thresholds[0]
        if await self._reclaimed(first.signal, measured):
            return None
        return await self._evict_one(first, pressure, measured)

    def _take_pressure(self, pressure: Pressure) -> None:
        before = self._pressure.conditions
        self._pressure.measured(pressure.conditions)
        if pressure.conditions != before:
            for condition in sorted({*pressure.conditions} - {*before}):
                log.warning("the node has %s: pods may be evicted, and not all new pods are admitted", condition)
            for condition in sorted({*before} - {*pressure.conditions}):
                log.info("the node no longer has %s", condition)
            self._on_conditions(pressure.conditions)

    # --- reclaiming ---------------------------------------------------------------------------------------------------

    async def _reclaimed(self, signal: Signal, measured: NodeMeasurement) -> bool:
        """Reclaim resources at the node level if that helps against `signal`; say whether it was enough.

        Mirrors reclaimNodeLevelResources.
        """
        self._warn(f"EvictionThresholdMet: Attempting to reclaim {RESOURCES[signal]}")
        only_logs = signal.startswith("nodefs") and measured.dedicated_images
        if RESOURCES[signal] not in ("ephemeral-storage", "inodes") or only_logs:
            return False
        for place in range(len(self._reclaim)):
            try:
                await self._reclaim_by(place)
            except (CriError, OSError, ImageGcFailed) as error:
                log.warning("reclaiming failed in part: %s", error)
            except Exception:
                log.exception("reclaiming failed in part because of a defect; a pod may be evicted")
        again = await self._observations.measure()
        if thresholds_met(self._state.acted, again.signals, with_reclaim=True):
            return False
        log.info("reclaiming was enough: no pod is evicted")
        return True

    async def _reclaim_by(self, place: int) -> None:
        """Run one of the reclaim functions. After :data:`RECLAIM_SECONDS`, raise TimeoutError; the function continues.

        It is started again only after it has ended. Raises CriError, OSError, ImageGcFailed.
        """
        task = self._reclaiming.get(place)
        if task is None:
            task = self._reclaiming[place] = asyncio.create_task(_all_of(self._reclaim[place]), name="reclaim")
        done, _ = await asyncio.wait({task}, timeout=RECLAIM_SECONDS)
        if not done:
            raise TimeoutError(f"it takes more than {RECLAIM_SECONDS:g} s; it continues in the background")
        del self._reclaiming[place]
        task.result()

    def _warn(self, text: str) -> None:
        if text != self._warned:
            log.warning("%s", text)
        self._warned = text

    # --- evicting -----------------------------------------------------------------------------------------------------

    async def _evict_one(self, first: Threshold, pressure: Pressure, measured: NodeMeasurement) -> PodRef | None:
        """Evict the highest-ranked pod that was not evicted before, and wait for its end."""
        try:
            active = await self._usages.active()
        except OSError as error:
            log.warning("the pods' records cannot be read, so no pod is evicted: %s", error)
            return None
        self._evicted &= active.keys()
        left = {uid: pod for uid, pod in active.items() if uid not in self._evicted}
        candidates = await self._usages.measure(left, first.signal)
        for candidate in ranked(first.signal, candidates, dedicated_images=measured.dedicated_images):
            pod = left[candidate.pod.metadata.uid]
            message = eviction_message(candidate, RESOURCES[first.signal], pressure.thresholds, measured.signals)
            try:
                if await self._evict(pod, message, first):
                    return pod.ref
            except RPCError as error:
                log.warning(
                    "the eviction of pod %s/%s cannot be sent: %s",
                    pod.ref.namespace,
                    pod.ref.name,
                    error,
                )
                return None
        log.error("no pod can be evicted, and the node remains short of %s", RESOURCES[first.signal])
        return None

    async def _evict(self, pod: ActivePod, message: str, threshold: Threshold) -> bool:
        """Signal a pod's eviction and wait for the pod's end; say whether the pod has a workflow. Raises RPCError."""
        ref = pod.ref
        grace = grace_seconds(pod.pod, threshold, self._policy)
        order = Evict(uid=ref.uid, message=message, grace_period_seconds=grace, disruption=True)
        if not await self._send(ref, order):
            log.warning("pod %s/%s would be evicted, but it has no workflow", ref.namespace, ref.name)
            return False
        log.warning("pod %s/%s is evicted: %s", ref.namespace, ref.name, message.rstrip())
        metrics.evictions.add(1, {"eviction_signal": threshold.signal})
        self._evicted.add(ref.uid)
        if not await self._wait_for_cleanup(ref.uid, seconds=_end_seconds(grace) + CLEANUP_SECONDS):
            log.warning("pod %s/%s was evicted, and is not gone yet", ref.namespace, ref.name)
        return True


async def _all_of(reclaim: Reclaim) -> object:
    return await reclaim()


def _end_seconds(grace: int) -> int:
    """Return how many seconds to wait for the end of a pod with that grace period.

    Mirrors pod_workers.go, v1.36, killPodNow.
    """
    return max(10, grace + grace // 2)
