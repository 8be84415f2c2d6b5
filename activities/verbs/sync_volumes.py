"""sync_volumes: update the files in a pod's volumes that show its labels, annotations and resources."""

from __future__ import annotations

import asyncio
from functools import partial

from activities.node.pod_record import note_pod
from activities.step_attempt import PodFault, StepAttempt, warning
from syncpod.kernel.os_errors import where_and_why
from syncpod.messages.steps import Fault, StepResult, SyncVolumes
from syncpod.node.pod_threads import DiskWork
from syncpod.node.pod_volumes import MountFailure, refresh_volumes


async def sync_volumes(attempt: StepAttempt, request: SyncVolumes) -> StepResult:
    """Write the pod into its record, and its labels, annotations and resources into the files that show them.

    Its containers run on, and see either all of the new files of a volume or all of the old ones. Containers that mount
    a part of a volume (subPath) keep the old files, as in Kubernetes. Safe to repeat. Raises PodFault FailedMount if a
    volume cannot be updated, for example because the disk is full; that volume stays as it was.
    """
    attempt.doing = "updates the pod's volumes"
    context, store = attempt.node.context, attempt.node.objects
    reason = Fault.FAILED_MOUNT.value
    try:
        await asyncio.to_thread(note_pod, context, request.ref, request.pod)
        await attempt.on_disk(DiskWork.REFRESH, partial(refresh_volumes, request.pod, context, store))
    except OSError as error:
        message = f"error updating pod data directories: {where_and_why(error)}"
        raise PodFault(Fault.FAILED_MOUNT, message, warning(reason, message)) from error
    except MountFailure as error:
        events = (warning(reason, failure.message) for failure in error.failures)
        raise PodFault(Fault.FAILED_MOUNT, str(error), *events) from error
    return StepResult()
