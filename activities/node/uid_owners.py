"""The owners of UIDs on this node. A pod's volumes, containers and records are found by its UID.

The kubelet gets UIDs from an API server, which makes them unique. Here a manifest may contain a UID, so two pods could
have the same: then each would read the other's volumes, and the end of one would end the other.
"""

from __future__ import annotations

import asyncio
from typing import Final

from syncpod.messages.identity import PodRef
from syncpod.node.pod_records import read_pod_record
from syncpod.node.tombstones import tombstone_at
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName

UID_IN_USE: Final = "UIDInUse"
"""The reason for rejecting a pod whose manifest names another pod's UID."""


class UidOwners:
    """Binds each UID to the namespace and name of the pod that had it first, as long as that pod has a record."""

    def __init__(self, node: NodeContext) -> None:
        """Use the records of this node, which outlive the worker."""
        self._node = node
        self._bound: dict[str, PodRef] = {}
        """For each UID, the newest life of its pod that has been bound."""

    async def bind(self, ref: PodRef) -> str:
        """Bind a UID to its pod; return why another pod has it, "" if the pod now has it. Raises OSError."""
        known = await self._owner(ref.uid)
        # Hazard: nothing may be awaited from here on. Otherwise two concurrent pods could both get the UID.
        bound = self._bound.get(ref.uid)
        if refusal := _refusal(ref, _name(bound) if bound is not None else known or _name(ref)):
            return refusal
        self._bound[ref.uid] = ref
        return ""

    async def refusal(self, ref: PodRef) -> str:
        """Return why a pod could not have its UID now; "" if it could. Binds nothing. Raises OSError."""
        known = await self._owner(ref.uid)
        return _refusal(ref, known) if known is not None else ""

    async def _owner(self, uid: str) -> tuple[str, str] | None:
        """Return the namespace and name of the pod that a UID belongs to; None if it is free."""
        if (bound := self._bound.get(uid)) is not None:
            return _name(bound)
        try:
            return await asyncio.to_thread(_recorded, self._node, uid)
        except UnsafeName:
            return None  # the step itself reports the unsafe name

    def release(self, ref: PodRef) -> None:
        """Forget a pod's life that is over, or whose record has gone: its UID is free, unless a later life has it.

        Without an incarnation, any life of the pod is forgotten.
        """
        bound = self._bound.get(ref.uid)
        if bound is not None and _name(bound) == _name(ref) and ref.incarnation in ("", bound.incarnation):
            del self._bound[ref.uid]


def _name(ref: PodRef) -> tuple[str, str]:
    return ref.namespace, ref.name


def _recorded(node: NodeContext, uid: str) -> tuple[str, str] | None:
    """Return the owner of the record with this UID; None if there is none, or only a deleted pod's remains. Blocks."""
    record = read_pod_record(node, uid)
    if record is None or tombstone_at(node, uid, record.incarnation) is not None:
        return None
    return record.pod.metadata.namespace, record.pod.metadata.name


def _refusal(ref: PodRef, owner: tuple[str, str]) -> str:
    if owner == (ref.namespace, ref.name):
        return ""
    namespace, name = owner
    flag = "" if namespace == "default" else f" -n {namespace}"
    return (
        f"metadata.uid: {ref.uid} belongs to pod {namespace}/{name} on this node: leave it out, or delete that pod "
        f"first (`syncpod prune{flag} {name}` on that node if it runs without a workflow)"
    )
