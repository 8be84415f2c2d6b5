"""Noting on the node that a pod's life is over, so that what is left of it may be removed at any time."""

from __future__ import annotations

import asyncio

from temporalio import activity

from syncpod.messages.identity import PodRef
from syncpod.node.deleted_pods import deleted_at, note_deleted
from syncpod.node.pod_records import PodRecord, read_pod_record
from syncpod.translation.context import NodeContext


async def note_end(node: NodeContext, ref: PodRef) -> bool:
    """Note that this life of the pod is over; say whether that is noted.

    It is not for a pod without an incarnation, or if the disk is full: nothing may keep a pod from being removed.
    """
    return await asyncio.to_thread(_noted, node, ref)


def record_of_ended_life(node: NodeContext, uid: str) -> PodRecord | None:
    """Return the record under a UID if the life that it is of is noted as over; else None. Blocks.

    Raises OSError, UnsafeName.
    """
    record = read_pod_record(node, uid)
    if record is None or deleted_at(node, uid, record.incarnation) is None:
        return None
    return record


def _noted(node: NodeContext, ref: PodRef) -> bool:
    if not ref.incarnation:
        return False
    try:
        note_deleted(node, ref.uid, ref.incarnation)
    except OSError as error:
        activity.logger.warning("the deletion of the pod cannot be noted: %s", error.strerror)
        return False
    return True
