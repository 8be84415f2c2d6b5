"""Watches over what a node has left, and puts pods out, one at a time, when there is too little.

Every ten seconds memory, disks and processes are measured and held against thresholds
(:mod:`syncpod.lifecycle.eviction`). Where one calls for action, the node first tidies up: dead containers and unused
images go, where that helps. Where it does not, the pod that the kubelet would choose is signalled `evict`
(:mod:`syncpod.lifecycle.eviction_ranking`), and its workflow does the rest. Nothing is measured again, and so no other
pod put out, before that one has ended and is tidied up, or has had half as long again as its grace, ten seconds at
least, and then :data:`CLEANUP_SECONDS`.

Mirrors eviction/eviction_manager.go, v1.36. Differences: limits of single pods are watched apart
(:mod:`syncpod.agent.storage.limits`); memory is measured each period, and no notifier of the kernel's asks for it in
between; a removal of dead containers or of images that hangs is waited for no longer than :data:`RECLAIM_SECONDS`;
whether it was enough, the thresholds say that called for action, where the kubelet asks all that are configured, and so
puts a pod out for a disk that is well again while memory is below a soft one whose grace is not over; the end of a pod
and the removal of its remains share one bound, where the kubelet counts anew for the second; events of the node are
warnings in the log, and its conditions a report on disk, there being no Node object.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from temporalio.service import RPCError

from syncpod.agent import metrics
from syncpod.agent.eviction.observations import Measured
from syncpod.agent.eviction.pod_usage import ActivePod, PodUsages
from syncpod.agent.storage.image_gc import ImageGcFailed
from syncpod.cri.errors import CriError
from syncpod.lifecycle.eviction import (
    NO_PRESSURE,
    RESOURCES,
    EvictionPolicy,
    NodeCondition,
    Pressure,
    PressureState,
    Signal,
    Threshold,
    admission_refusal,
    grace_seconds,
    look,
    thresholds_met,
)
from syncpod.lifecycle.eviction_ranking import eviction_message, ranked
from syncpod.messages import Evict, PodRef
from syncpod.pod import Pod

log = logging.getLogger(__name__)

CLEANUP_SECONDS: Final = 30.0
"""podCleanupTimeout: how long the remains of a pod that was put out may take to go before another is put out."""

RECLAIM_SECONDS: Final = 30.0
"""How long the removal of dead containers, and that of images, is waited for before a pod is put out all the same."""

Send = Callable[[PodRef, Evict], Awaitable[bool]]
"""Signals a pod; returns whether there was a workflow to take it. Raises RPCError while the server is away."""
Reclaim = Callable[[], Awaitable[object]]
"""Frees what nobody needs. Raises CriError, OSError, ImageGcFailed."""


class TidyAfter(Protocol):
    """Who sees to a pod that is put out: :meth:`syncpod.agent.housekeeping.dead_containers.ContainerGc.tidy_after`."""

    async def __call__(self, uid: str, *, seconds: float) -> bool:
        """Wait, so many seconds at most, until it has ended and all it has written is removed; say whether it is."""


class Observations(Protocol):
    """Who measures the node: :class:`syncpod.agent.eviction.observations.NodeObservations`."""

    async def measure(self) -> Measured:
        """Measure now; what cannot be measured is left out."""


class Evictor:
    """The eviction manager of one node. All methods belong to one event loop."""

    def __init__(
        self,
        policy: EvictionPolicy,
        observations: Observations,
        usages: PodUsages,
        send: Send,
        *,
        tidy_after: TidyAfter,
        reclaim: tuple[Reclaim, ...] = (),
        told: Callable[[tuple[NodeCondition, ...]], None] = lambda conditions: None,
        period: float = 10.0,
    ) -> None:
        """Tell pods by `send`; try `reclaim`, in order, before one is put out for want of disk, and wait for its end.

        `told` hears of the node's conditions when they have changed.
        """
        self._policy = policy
        self._observations = observations
        self._usages = usages
        self._send = send
        self._tidy_after = tidy_after
        self._reclaim = reclaim
        self._reclaiming: dict[int, asyncio.Task[object]] = {}
        self._told = told
        self._period = period
        self._state = PressureState()
        self._pressure = NO_PRESSURE
        self._put_out: set[str] = set()
        self._said = ""

    @property
    def conditions(self) -> tuple[NodeCondition, ...]:
        """What the node says of itself."""
        return self._pressure.conditions

    def refusal(self, pod: Pod) -> str:
        """Return why the node does not let a pod in now; "" = it does."""
        return admission_refusal(pod, self.conditions)

    async def run(self) -> None:
        """Look for ever; return at once where nothing is held to anything. What is under way at its end is given up."""
        try:
            while self._policy.thresholds:
                await self.round()
                await asyncio.sleep(self._period)
        finally:
            given_up = tuple(self._reclaiming.values())
            self._reclaiming.clear()
            for task in given_up:
                task.cancel()
            await asyncio.gather(*given_up, return_exceptions=True)

    async def round(self) -> PodRef | None:
        """Look once; return which pod was put out, if any."""
        measured = await self._observations.measure()
        self._state, pressure = look(self._policy, self._state, measured.signals, time.monotonic())
        self._tell(pressure)
        if not pressure.thresholds:
            self._said = ""
            return None
        first = pressure.thresholds[0]
        if await self._reclaimed(first.signal, measured):
            return None
        return await self._put_one_out(first, pressure, measured)

    def _tell(self, pressure: Pressure) -> None:
        before, self._pressure = self._pressure, pressure
        if pressure.conditions != before.conditions:
            for condition in sorted({*pressure.conditions} - {*before.conditions}):
                log.warning("the node has %s: pods may be put out, and not all are let in", condition)
            for condition in sorted({*before.conditions} - {*pressure.conditions}):
                log.info("the node has no %s any more", condition)
            self._told(pressure.conditions)

    # --- tidying up ---------------------------------------------------------------------------------------------------

    async def _reclaimed(self, signal: Signal, measured: Measured) -> bool:
        """Tidy up where that helps; say whether it was enough (reclaimNodeLevelResources)."""
        self._say(f"EvictionThresholdMet: Attempting to reclaim {RESOURCES[signal]}")
        only_logs = signal.startswith("nodefs") and measured.dedicated_images
        if RESOURCES[signal] not in ("ephemeral-storage", "inodes") or only_logs:
            return False
        for place in range(len(self._reclaim)):
            try:
                await self._reclaim_by(place)
            except (CriError, OSError, ImageGcFailed) as error:
                log.warning("what nobody needs could not all be removed: %s", error)
            except Exception:
                log.exception("what nobody needs could not all be removed, for a fault of ours; a pod may be put out")
        again = await self._observations.measure()
        if thresholds_met(self._state.acted, again.signals, with_reclaim=True):
            return False
        log.info("removing what nobody needs was enough: no pod is put out")
        return True

    async def _reclaim_by(self, place: int) -> None:
        """Have one of the removals done, so far as it comes in its time; what takes longer goes on beside the rest.

        It is begun anew only when it has ended. Raises CriError, OSError (a timeout too), ImageGcFailed.
        """
        task = self._reclaiming.get(place)
        if task is None:
            task = self._reclaiming[place] = asyncio.create_task(_all_of(self._reclaim[place]), name="reclaim")
        done, _ = await asyncio.wait({task}, timeout=RECLAIM_SECONDS)
        if not done:
            raise TimeoutError(f"it takes more than {RECLAIM_SECONDS:g} s, and goes on")
        del self._reclaiming[place]
        task.result()

    def _say(self, text: str) -> None:
        if text != self._said:
            log.warning("%s", text)
        self._said = text

    # --- putting out --------------------------------------------------------------------------------------------------

    async def _put_one_out(self, first: Threshold, pressure: Pressure, measured: Measured) -> PodRef | None:
        """Put out the first pod that can be, but for those that were told so before, and wait for its end."""
        try:
            active = await self._usages.active()
        except OSError as error:
            log.warning("the pods' records cannot be read, so none is put out: %s", error)
            return None
        self._put_out &= active.keys()
        left = {uid: pod for uid, pod in active.items() if uid not in self._put_out}
        candidates = await self._usages.measure(left, first.signal)
        for candidate in ranked(first.signal, candidates, dedicated_images=measured.dedicated_images):
            pod = left[candidate.pod.metadata.uid]
            message = eviction_message(candidate, RESOURCES[first.signal], pressure.thresholds, measured.signals)
            try:
                if await self._evict(pod, message, first):
                    return pod.ref
            except RPCError as error:
                log.warning("pod %s/%s cannot be told that it is put out: %s", pod.ref.namespace, pod.ref.name, error)
                return None
        log.error("no pod can be put out, and the node goes on being short of %s", RESOURCES[first.signal])
        return None

    async def _evict(self, pod: ActivePod, message: str, threshold: Threshold) -> bool:
        """Signal a pod's end, and wait for it; say whether it was told of it. Raises RPCError."""
        ref = pod.ref
        grace = grace_seconds(pod.pod, threshold, self._policy)
        order = Evict(uid=ref.uid, message=message, grace_period_seconds=grace, disruption=True)
        if not await self._send(ref, order):
            log.warning("pod %s/%s is to be put out, but no workflow asks for it", ref.namespace, ref.name)
            return False
        log.warning("pod %s/%s is put out: %s", ref.namespace, ref.name, message.rstrip())
        metrics.evictions.add(1, {"eviction_signal": threshold.signal})
        self._put_out.add(ref.uid)
        if not await self._tidy_after(ref.uid, seconds=_end_seconds(grace) + CLEANUP_SECONDS):
            log.warning("pod %s/%s was put out, and is not gone yet", ref.namespace, ref.name)
        return True


async def _all_of(reclaim: Reclaim) -> object:
    return await reclaim()


def _end_seconds(grace: int) -> int:
    """Return how long the end of a pod with that grace is waited for (pod_workers.go, v1.36, killPodNow)."""
    return max(10, grace + grace // 2)
