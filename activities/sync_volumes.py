"""sync_volumes: what a pod's volumes show of the pod itself, brought up to date."""

from __future__ import annotations

import asyncio

from activities.attempt import Attempt
from syncpod.cri.pod_records import PodRecord, read_pod_record, write_pod_record
from syncpod.messages import StepResult, SyncVolumes


async def sync_volumes(attempt: Attempt, request: SyncVolumes) -> StepResult:
    """Take the pod's labels and annotations as they are now. Safe to repeat. Raises OSError."""
    attempt.doing = "updates the pod's volumes"
    await asyncio.to_thread(_record, attempt, request)
    return StepResult()


def _record(attempt: Attempt, request: SyncVolumes) -> None:
    context = attempt.node.context
    known = read_pod_record(context, request.ref.uid)
    admitted = known is not None and known.incarnation == request.ref.incarnation and known.admitted
    write_pod_record(context, PodRecord(pod=request.pod, incarnation=request.ref.incarnation, admitted=admitted))
