"""Which pod a UID belongs to on this node: everything of a pod, its volumes and containers too, is found by its UID.

The kubelet is given UIDs by an API server that makes them. Here a manifest may name one, so two pods could name the
same: then each would read the other's volumes, and the end of one would end the other.
"""

from __future__ import annotations

import asyncio

from syncpod.messages.identity import PodRef
from syncpod.node.pod_records import read_pod_record
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName


class UidOwners:
    """Binds UIDs to the namespaces and names of the pods that had them first, for as long as they have a record."""

    def __init__(self, node: NodeContext) -> None:
        """Go by the records of this node, which outlive the worker."""
        self._node = node
        self._bound: dict[str, tuple[str, str]] = {}

    async def bind(self, ref: PodRef) -> str:
        """Bind a pod's UID to it, unless it is another's; return whose it is, as ``<namespace>/<name>``, "" = its own.

        Raises OSError.
        """
        if ref.uid not in self._bound:
            try:
                record = await asyncio.to_thread(read_pod_record, self._node, ref.uid)
            except UnsafeName:
                return ""  # the step itself says so
            named = (record.pod.metadata.namespace, record.pod.metadata.name) if record is not None else None
            # Nothing is awaited from here on: of two pods that come at once, one is first.
            self._bound.setdefault(ref.uid, named or (ref.namespace, ref.name))
        owner = self._bound[ref.uid]
        return "" if owner == (ref.namespace, ref.name) else "/".join(owner)

    def release(self, ref: PodRef) -> None:
        """Forget a pod whose record has gone: its UID is free."""
        if self._bound.get(ref.uid) == (ref.namespace, ref.name):
            del self._bound[ref.uid]
