"""Which pods a node has let in, and what they take of it: in memory, and after a restart from the pods' records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

from syncpod.messages import PodRef
from syncpod.node.fit import Capacity, Demand, Refusal, Taken, demand_of, rank_of_resize, refusal_of_resize
from syncpod.node.pod_records import read_pod_records
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext


@dataclass(frozen=True)
class _Admitted:
    incarnation: str
    demand: Demand


Trigger = Literal["pod_updated", "pod_resized", "pod_terminated", "pods_removed", "periodic_retry"]
"""Why a resize that was put off is asked for again, in the kubelet's words (allocation_manager.go, v1.36)."""


@dataclass(frozen=True)
class PutOff:
    """A pod whose resize the node had no room for: what it asked for, and what it is ranked by."""

    ref: PodRef
    rank: tuple[int, bool]
    demand: Demand
    told_of: Trigger | None = None
    """Why there may be room again, once it has been told; until then it waits to be."""


class Ledger:
    """Counts what admitted pods take, from their admission to their end; sums are kept, so that a look is cheap.

    What survives the process is in the pods' records: that a pod was admitted, before anything was made for it, and
    that it has finished.
    """

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._pods: dict[str, _Admitted] | None = None
        self._taken = Taken()
        self._put_off: dict[str, PutOff] = {}
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Page]:
        """Have the ledger alone for the block: one admission at a time. Raises OSError where records cannot be read."""
        async with self._lock:
            if self._pods is None:
                self._pods = await asyncio.to_thread(_from_records, self._context)
                self._taken = Taken(entry.demand for entry in self._pods.values())
            yield Page(self._pods, self._taken, self._put_off)


class Page:
    """The ledger, open to whoever has it alone."""

    def __init__(self, pods: dict[str, _Admitted], taken: Taken, put_off: dict[str, PutOff]) -> None:
        self._pods = pods
        self._taken = taken
        self._put_off = put_off

    @property
    def burstable_milli_cpu(self) -> int:
        """What the burstable pods request of the CPU together."""
        return self._taken.burstable_milli_cpu

    def has(self, ref: PodRef) -> bool:
        """Say whether this life of the pod was let in, and has not ended."""
        return self._is_of(ref)

    def refusal(self, ref: PodRef, pod: Pod, capacity: Capacity) -> Refusal | None:
        """Return why the pod does not fit beside all others; an earlier life of it gives its place up."""
        self._strike(ref.uid)
        return self._taken.refusal(demand_of(pod), capacity)

    def enter(self, ref: PodRef, pod: Pod) -> bool:
        """Count the pod, as it is now, in place of what was counted for it; say whether that leaves more to others."""
        before = self._pods.get(ref.uid)
        self._strike(ref.uid)
        self._put_off.pop(ref.uid, None)
        entry = _Admitted(ref.incarnation, demand_of(pod))
        self._pods[ref.uid] = entry
        self._taken.add(entry.demand)
        return before is not None and any(
            amount > entry.demand.amounts.get(name, 0) for name, amount in before.demand.amounts.items()
        )

    def refusal_of_resize(self, ref: PodRef, pod: Pod, capacity: Capacity) -> tuple[Refusal, bool] | None:
        """Return why the pod does not fit as it now asks, beside all others, and whether it never will.

        It goes on being counted as it was, and waits for room where there may be some.
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

    def why_again(self, ref: PodRef, pod: Pod) -> Trigger | None:
        """Return why the pod asks again that was put off; None of one that was not, in this life of the node.

        What asks again by itself, or because an operator will not wait, does so as the kubelet does periodically.
        """
        put_off = self._put_off.get(ref.uid)
        if put_off is None or put_off.ref != ref:
            return None
        if put_off.demand != demand_of(pod):
            return "pod_updated"
        return put_off.told_of or "periodic_retry"

    def take_waiting(self, trigger: Trigger) -> tuple[PodRef, ...]:
        """Return the pods that wait for room to be resized, to be told: by rank, then who has waited longest.

        They wait no longer: who asks again, and still finds no room, waits again. So a pod that has changed its mind
        is told once for nothing, and not with each pod that ends. `trigger` is why there may be room.
        """
        waiting = [each for each in self._put_off.values() if each.told_of is None]
        self._put_off.update((each.ref.uid, replace(each, told_of=trigger)) for each in waiting)
        return tuple(each.ref for each in sorted(waiting, key=lambda each: each.rank))

    def strike(self, ref: PodRef) -> bool:
        """Count this life of the pod no longer, whichever it is where none is named; say whether it was counted."""
        counted = self._is_of(ref) if ref.incarnation else ref.uid in self._pods
        if counted:
            self._strike(ref.uid)
            self._put_off.pop(ref.uid, None)
        return counted

    def keep(self, uids: Collection[str]) -> bool:
        """Count only the pods of these UIDs: what else was let in has been removed behind the node's back.

        Say whether any was counted that no longer is.
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


def _from_records(context: NodeContext) -> dict[str, _Admitted]:
    return {
        record.pod.metadata.uid: _Admitted(record.incarnation, demand_of(record.pod))
        for record in read_pod_records(context)
        if record.admitted and not record.finished
    }
