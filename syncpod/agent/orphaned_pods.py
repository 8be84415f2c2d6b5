"""Finds this node's pods that run without a workflow, for commands that read pods.

`syncpod.agent.housekeeping.orphans` searches for the same pods each minute in the runtime's list, and decides whether
they are ended. A command is answered at once from the agent's newest listings. The server is asked only about pods
without a known workflow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from syncpod.agent.open_pods import OpenPods
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import pod_workflow_id
from syncpod.node.pod_records import read_pod_record
from syncpod.node.tombstones import tombstone_at
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName


class OrphanedPod(NamedTuple):
    """A pod that runs without a workflow."""

    workflow_id: str
    """The id that its workflow would have."""
    listing: ObservedPod


class OrphanedPods:
    """The search for orphaned pods. Belongs to the agent's event loop."""

    def __init__(self, node: NodeContext, listings: Callable[[], Iterable[ObservedPod]], open_pods: OpenPods) -> None:
        """Search the pods of `listings`. `open_pods` queries the server for open workflows."""
        self._node = node
        self._listings = listings
        self._open_pods = open_pods

    async def among(self, namespace: str | None, names: Collection[str], known: Collection[str]) -> list[OrphanedPod]:
        """Return the orphaned pods of a namespace; None = of all namespaces.

        With `names`, only these pods are returned; empty = all. `known` has the ids of workflows that are open. Raises
        OpenPodsUnknown if the server does not answer about the workflows that are not `known`.
        """
        suspects: dict[str, OrphanedPod] = {}
        for listing in self._listings():
            if namespace not in (None, listing.namespace) or (names and listing.name not in names):
                continue
            workflow_id = pod_workflow_id(listing.namespace, listing.name)
            if workflow_id not in known and _is_alive(listing):
                suspects[workflow_id] = OrphanedPod(workflow_id, listing)
        if not suspects:
            return []
        still_open = await self._open_pods.still_open(list(suspects))
        left = [each for each in suspects.values() if each.workflow_id not in still_open]
        return await asyncio.to_thread(self._not_over, left) if left else []

    def _not_over(self, pods: Iterable[OrphanedPod]) -> list[OrphanedPod]:
        """Return the pods without a tombstone; those with one are being removed. Blocks."""
        return [each for each in pods if not self._is_over(each.listing.uid)]

    def _is_over(self, uid: str) -> bool:
        try:
            record = read_pod_record(self._node, uid)
        except (OSError, UnsafeName):
            return False
        return record is not None and tombstone_at(self._node, uid, record.incarnation) is not None


def _is_alive(listing: ObservedPod) -> bool:
    return any(each.ready for each in listing.sandboxes) or any(each.state == "running" for each in listing.containers)
