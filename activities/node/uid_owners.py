"""Which pod a UID belongs to on this node: everything of a pod, its volumes and containers too, is found by its UID.

The kubelet is given UIDs by an API server that makes them. Here a manifest may name one, so two pods could name the
same: then each would read the other's volumes, and the end of one would end the other.
"""

from __future__ import annotations

import asyncio
from typing import Final

from syncpod.messages.identity import PodRef
from syncpod.node.pod_records import read_pod_record
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName

UID_IN_USE: Final = "UIDInUse"
"""The reason of a pod that names the UID of another."""


class UidOwners:
    """Binds UIDs to the namespaces and names of the pods that had them first, for as long as they have a record."""

    def __init__(self, node: NodeContext) -> None:
        """Go by the records of this node, which outlive the worker."""
        self._node = node
        self._bound: dict[str, tuple[str, str]] = {}

    async def bind(self, ref: PodRef) -> str:
        """Bind a pod's UID to it, unless it is another's; return why it cannot have it, "" = it has. Raises OSError."""
        known = await self._owner(ref.uid)
        # Nothing is awaited from here on: of two pods that come at once, one is first.
        return _refusal(ref, self._bound.setdefault(ref.uid, known or (ref.namespace, ref.name)))

    async def refusal(self, ref: PodRef) -> str:
        """Return why a pod could not have its UID now; "" = it could. Binds nothing. Raises OSError."""
        known = await self._owner(ref.uid)
        return _refusal(ref, known) if known is not None else ""

    async def _owner(self, uid: str) -> tuple[str, str] | None:
        """Return the namespace and name of the pod that a UID belongs to; None = it is free."""
        if (bound := self._bound.get(uid)) is not None:
            return bound
        try:
            record = await asyncio.to_thread(read_pod_record, self._node, uid)
        except UnsafeName:
            return None  # the step itself says so
        return (record.pod.metadata.namespace, record.pod.metadata.name) if record is not None else None

    def release(self, ref: PodRef) -> None:
        """Forget a pod whose record has gone: its UID is free."""
        if self._bound.get(ref.uid) == (ref.namespace, ref.name):
            del self._bound[ref.uid]


def _refusal(ref: PodRef, owner: tuple[str, str]) -> str:
    if owner == (ref.namespace, ref.name):
        return ""
    return (
        f"metadata.uid: {ref.uid} belongs to pod {'/'.join(owner)} on this node: leave it out, or delete that pod first"
    )
