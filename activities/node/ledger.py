"""The node's ledger: its admitted pods and their resources. After a restart it is read from the pods' records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from syncpod.messages import StepName
from syncpod.messages.identity import PodRef
from syncpod.node.fit import Capacity, Demand, Refusal, Taken, demand_of, rank_of_resize, refusal_of_resize
from syncpod.node.pod_records import read_pod_records
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext


@dataclass(frozen=True)
class _Admitted:
    incarnation: str
    demand: Demand


Trigger = Literal["pod_updated", "pod_resized", "pod_terminated", "pods_removed", "periodic_retry"]
"""Why a deferred resize is tried again, in the kubelet's words (allocation_manager.go, v1.36)."""


@dataclass(frozen=True)
class PutOff:
    """A pod for whose resize or admission the node had no room: its demand, and its rank among such pods."""

    ref: PodRef
    rank: tuple[int, bool]
    demand: Demand
    trigger: Trigger | None = None
    """The reason for which the pod was notified that there may be room; None if it has not been notified yet."""


class WaitsForRoom(NamedTuple):
    """A pod to be notified when the node has room again, and its step that needs the room."""

    ref: PodRef
    step: StepName


class Ledger:
    """Counts the resources of admitted pods, from admission to end. It keeps sums, so that reading is cheap.

    The pods' records survive the process. A pod's admission is recorded before anything is made for the pod. Its end is
    recorded too.
    """

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._pods: dict[str, _Admitted] | None = None
        self._taken = Taken()
        self._put_off: dict[str, PutOff] = {}
        self._rejected: dict[str, PutOff] = {}
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[LockedLedger]:
        """Lock the ledger for the block: one admission at a time. Raises OSError if records cannot be read."""
        async with self._lock:
            if self._pods is None:
                self._pods = await asyncio.to_thread(_from_records, self._context)
                self._taken = Taken(entry.demand for entry in self._pods.values())
            yield LockedLedger(self._pods, self._taken, self._put_off, self._rejected)


class LockedLedger:
    """The ledger while it is locked."""

    def __init__(
        self,
        pods: dict[str, _Admitted],
        taken: Taken,
        put_off: dict[str, PutOff],
        rejected: dict[str, PutOff],
    ) -> None:
        self._pods = pods
        self._taken = taken
        self._put_off = put_off
        self._rejected = rejected

    @property
    def burstable_milli_cpu(self) -> int:
        """The CPU that the burstable pods request together, in millicores."""
        return self._taken.burstable_milli_cpu

    def has(self, ref: PodRef) -> bool:
        """Return whether this life of the pod was admitted, and has not ended."""
        return self._is_of(ref)

    def refusal(self, ref: PodRef, pod: Pod, capacity: Capacity, *, matches: bool = True) -> Refusal | None:
        """Return why the pod does not fit on the node beside all others; None if it fits.

        An earlier life of the pod stops counting. `matches` tells whether the node has the labels that the pod
        requires.
        """
        self._strike(ref.uid)
        return self._taken.refusal(demand_of(pod), capacity, matches=matches)

    def foreseen_refusal(
        self, ref: PodRef, pod: Pod, capacity: Capacity, *, matches: bool, before: Sequence[Demand] = ()
    ) -> Refusal | None:
        """Return the result of `refusal` as if pods with the demands `before` were admitted; nothing stays counted."""
        for demand in before:
            self._taken.add(demand)
        try:
            return self.refusal(ref, pod, capacity, matches=matches)
        finally:
            for demand in before:
                self._taken.remove(demand)

    def enter(self, ref: PodRef, pod: Pod) -> bool:
        """Count the pod with its present demand in place of its earlier one; return whether any amount decreased."""
        before = self._pods.get(ref.uid)
        self._strike(ref.uid)
        self._put_off.pop(ref.uid, None)
        self._rejected.pop(ref.uid, None)
        entry = _Admitted(ref.incarnation, demand_of(pod))
        self._pods[ref.uid] = entry
        self._taken.add(entry.demand)
        return before is not None and any(
            amount > entry.demand.amounts.get(name, 0) for name, amount in before.demand.amounts.items()
        )

    def refusal_of_resize(self, ref: PodRef, pod: Pod, capacity: Capacity) -> tuple[Refusal, bool] | None:
        """Return why the pod with its new requests does not fit beside all others, and whether it never will.

        Returns None if it fits. The old requests stay counted. If there may be room later, the pod waits for it.
        """
        own = self._pods.get(ref.uid)
        if own is not None:
            self._taken.remove(own.demand)
        try:
            refusal = refusal_of_resize(demand_of(pod), self._taken, capacity)
        finally:
            if own is not None:
                self._taken.add(own.demand)
        self._put_off.pop(ref.uid, None)
        if refusal is not None and not refusal[1]:
            self._put_off[ref.uid] = PutOff(ref, rank_of_resize(pod), demand_of(pod))
        return refusal

    def reject(self, ref: PodRef, pod: Pod) -> None:
        """Note that a pod lacked room or a host port: it was not admitted, and is to be notified as soon as it fits."""
        self._rejected[ref.uid] = PutOff(ref, rank_of_resize(pod), demand_of(pod))

    def why_again(self, ref: PodRef, pod: Pod) -> Trigger | None:
        """Return why a deferred resize is tried again; None if no deferred resize of the pod is noted here.

        If the pod was not notified and its demand is the same, that counts as the kubelet's periodic retry.
        """
        put_off = self._put_off.get(ref.uid)
        if put_off is None or put_off.ref != ref:
            return None
        if put_off.demand != demand_of(pod):
            return "pod_updated"
        return put_off.trigger or "periodic_retry"

    def take_waiting(self, trigger: Trigger, capacity: Capacity) -> tuple[WaitsForRoom, ...]:
        """Return the pods to notify of room: deferred resizes, then rejected pods; each by rank, then by waiting time.

        The caller notifies them. They then no longer count as waiting; a pod whose resize is tried again in vain waits
        again. So a pod that no longer needs the resize is notified once in vain, and not each time a pod ends. Only as
        many rejected pods are notified as fit now, since there may be many. `trigger` is the reason why there may be
        room.
        """
        waiting = [each for each in self._put_off.values() if each.trigger is None]
        self._put_off.update((each.ref.uid, replace(each, trigger=trigger)) for each in waiting)
        resized = (WaitsForRoom(each.ref, StepName.ALLOCATE_RESOURCES) for each in sorted(waiting, key=_rank))
        return (*resized, *(WaitsForRoom(each.ref, StepName.CREATE_SANDBOX) for each in self._take_fitting(capacity)))

    def _take_fitting(self, capacity: Capacity) -> list[PutOff]:
        """Return the rejected pods that now fit together, and stop noting them as waiting."""
        fitting: list[PutOff] = []
        try:
            for each in sorted(self._rejected.values(), key=_rank):
                if self._taken.refusal(each.demand, capacity) is None:
                    self._taken.add(each.demand)
                    fitting.append(each)
        finally:
            for each in fitting:
                self._taken.remove(each.demand)
        for each in fitting:
            del self._rejected[each.ref.uid]
        return fitting

    def strike(self, ref: PodRef) -> bool:
        """Stop counting this life of the pod, or any life if `ref` names none; return whether it was counted."""
        counted = self._is_of(ref) if ref.incarnation else ref.uid in self._pods
        waits = self._rejected.get(ref.uid)
        if waits is not None and ref.incarnation in ("", waits.ref.incarnation):
            del self._rejected[ref.uid]
        if counted:
            self._strike(ref.uid)
            self._put_off.pop(ref.uid, None)
        return counted

    def forget_others(self, uids: Collection[str]) -> bool:
        """Count only these pods from now on: the others were removed without notice to the node.

        Return whether there were others.
        """
        gone = self._pods.keys() - set(uids)
        for uid in gone:
            self._strike(uid)
            self._put_off.pop(uid, None)
        return bool(gone)

    def _is_of(self, ref: PodRef) -> bool:
        entry = self._pods.get(ref.uid)
        return entry is not None and entry.incarnation == ref.incarnation

    def _strike(self, uid: str) -> None:
        entry = self._pods.pop(uid, None)
        if entry is not None:
            self._taken.remove(entry.demand)


def _rank(waiting: PutOff) -> tuple[int, bool]:
    return waiting.rank


def _from_records(context: NodeContext) -> dict[str, _Admitted]:
    return {
        record.pod.metadata.uid: _Admitted(record.incarnation, demand_of(record.pod))
        for record in read_pod_records(context)
        if record.admitted and not record.finished
    }
