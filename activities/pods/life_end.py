"""The end of a pod's life, as its node notes it: marks in the pod's record, resources, tombstone and UID."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from temporalio import activity

from activities.containers.noted_starts import NotedStarts, noted_starts_of
from activities.node.pod_record import mark_record
from activities.pods.admission import free_resources
from activities.step_attempt import StepAttempt
from syncpod.messages.steps import KillPod
from syncpod.node.pod_records import Mark
from syncpod.node.tombstones import write_tombstone


class NotedEnd(NamedTuple):
    """The end of a kill, as it was noted."""

    starts: NotedStarts
    """The start marks of the pod's containers, from before the tombstone was written."""
    is_over: bool
    """Whether this life has a tombstone now: the node removes its remains from then on."""


async def note_end(attempt: StepAttempt, kill: KillPod) -> NotedEnd:
    """Note that a kill has ended everything of the pod.

    If the kill is final, this life never runs again, and its resources on the node are free. If the pod was deleted,
    the life gets a tombstone, and its UID is free. No tombstone is written for a pod without an incarnation, or if the
    disk is full: nothing may block a pod's removal. Safe to repeat. Raises OSError.
    """
    noted = await asyncio.to_thread(_note_end, attempt, kill)
    if kill.final:
        await free_resources(attempt, "pod_terminated")
    if noted.is_over:
        attempt.node.uids.release(attempt.ref)
    return noted


def _note_end(attempt: StepAttempt, kill: KillPod) -> NotedEnd:
    """Write what `note_end` notes in files. Blocks. Raises OSError."""
    marks: tuple[Mark, ...] = ("evicted", "finished") if kill.evicted else ("finished",)
    record = mark_record(attempt.node.context, attempt.ref, marks if kill.final else ())
    starts = noted_starts_of(attempt, record.pod) if record is not None else ()
    # Hazard: last. A tombstone lets the node remove the record and the marks.
    return NotedEnd(starts, is_over=kill.deleted and _tombstone_written(attempt))


async def leave_tombstone(attempt: StepAttempt) -> None:
    """Write the tombstone of a life that no deletion has ended, if it can be written, and free its UID."""
    if await asyncio.to_thread(_tombstone_written, attempt):
        attempt.node.uids.release(attempt.ref)


def _tombstone_written(attempt: StepAttempt) -> bool:
    """Write the tombstone of this life, and return whether it is written. Blocks."""
    ref = attempt.ref
    if not ref.incarnation:
        return False
    try:
        write_tombstone(attempt.node.context, ref.uid, ref.incarnation)
    except OSError as error:
        activity.logger.warning("the end of pod %s/%s cannot be noted: %s", ref.namespace, ref.name, error.strerror)
        return False
    return True
