"""Which pods a node has let in, and what they take of it: in memory, and after a restart from the pods' records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from syncpod.cri.fit import Capacity, Demand, Refusal, Taken, demand_of
from syncpod.cri.node import NodeContext
from syncpod.cri.pod_records import read_pod_records
from syncpod.messages import PodRef
from syncpod.pod import Pod


@dataclass(frozen=True)
class _Admitted:
    incarnation: str
    demand: Demand


class Ledger:
    """Counts what admitted pods take, from their admission to their end; sums are kept, so that a look is cheap.

    What survives the process is in the pods' records: that a pod was admitted, before anything was made for it, and
    that it has finished.
    """

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._pods: dict[str, _Admitted] | None = None
        self._taken = Taken()
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Page]:
        """Have the ledger alone for the block: one admission at a time. Raises OSError where records cannot be read."""
        async with self._lock:
            if self._pods is None:
                self._pods = await asyncio.to_thread(_from_records, self._context)
                self._taken = Taken(entry.demand for entry in self._pods.values())
            yield Page(self._pods, self._taken)


class Page:
    """The ledger, open to whoever has it alone."""

    def __init__(self, pods: dict[str, _Admitted], taken: Taken) -> None:
        self._pods = pods
        self._taken = taken

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

    def enter(self, ref: PodRef, pod: Pod) -> None:
        """Count the pod, as it is now, in place of what was counted for it."""
        self._strike(ref.uid)
        entry = _Admitted(ref.incarnation, demand_of(pod))
        self._pods[ref.uid] = entry
        self._taken.add(entry.demand)

    def strike(self, ref: PodRef) -> bool:
        """Count this life of the pod no longer, whichever it is where none is named; say whether it was counted."""
        counted = self._is_of(ref) if ref.incarnation else ref.uid in self._pods
        if counted:
            self._strike(ref.uid)
        return counted

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
