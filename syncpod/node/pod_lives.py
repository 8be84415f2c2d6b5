"""Finds the recorded life of a pod. A lost record is reconstructed from the pod's newest sandbox."""

from __future__ import annotations

import asyncio

from syncpod.cri.port import CriRuntime
from syncpod.node.pod_records import PodRecord, read_pod_record
from syncpod.node.tombstones import tombstone_at
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.names import (
    INCARNATION_ANNOTATION,
    NODE_LABEL,
    POD_NAME_LABEL,
    POD_NAMESPACE_LABEL,
    POD_UID_LABEL,
)
from syncpod.translation.paths import is_uid


async def pod_life(node: NodeContext, cri: CriRuntime, pod: Pod) -> PodRecord | None:
    """Return the record of a pod's current life; None if it has none, or has a tombstone.

    Without a record on disk, one is made from `pod` and the incarnation of its newest sandbox. The same UID means the
    same pod, since the UID of a static pod is a hash of its manifest. A sandbox of a life that is over does not count.
    Raises CriError, OSError.
    """
    record = await _last_life(node, cri, pod)
    if record is None:
        return None
    ended = await asyncio.to_thread(tombstone_at, node, pod.metadata.uid, record.incarnation)
    return record if ended is None else None


async def _last_life(node: NodeContext, cri: CriRuntime, pod: Pod) -> PodRecord | None:
    meta = pod.metadata
    if not is_uid(meta.uid):
        return None
    record = await asyncio.to_thread(read_pod_record, node, meta.uid)
    if record is not None:
        return record
    labels = {
        NODE_LABEL: node.name,
        POD_UID_LABEL: meta.uid,
        POD_NAMESPACE_LABEL: meta.namespace or "default",
        POD_NAME_LABEL: meta.name,
    }
    newest = max(await cri.list_pod_sandboxes(labels=labels), key=lambda each: each.attempt, default=None)
    incarnation = newest.annotations.get(INCARNATION_ANNOTATION, "") if newest is not None else ""
    return PodRecord(pod=pod, incarnation=incarnation) if incarnation else None
