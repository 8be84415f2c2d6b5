"""sync_volumes: what a pod's volumes show of the pod itself, brought up to date."""

from __future__ import annotations

import asyncio

from activities.attempt import Attempt, PodFault, warning
from activities.node.pod_record import note_pod
from syncpod.messages import Fault, StepResult, SyncVolumes
from syncpod.node.pod_volumes import MountFailure, refresh_volumes


async def sync_volumes(attempt: Attempt, request: SyncVolumes) -> StepResult:
    """Take the pod's labels and annotations as they are now: into its record, and into the files that show them.

    Its containers run on, and see the new files at once or not at all; those that mount a part of a volume (subPath)
    keep what they have, as in Kubernetes. Safe to repeat. Raises PodFault FailedMount where a volume cannot be brought
    up to date (a ConfigMap beside the labels has gone, say, or the disk is full): it stays as it is.
    """
    attempt.doing = "updates the pod's volumes"
    context, store = attempt.node.context, attempt.node.objects
    reason = Fault.FAILED_MOUNT.value
    try:
        await asyncio.to_thread(note_pod, context, request.ref, request.pod)
        await asyncio.to_thread(refresh_volumes, request.pod, context, store)
    except OSError as error:
        message = f"error updating pod data directories: {error}"
        raise PodFault(Fault.FAILED_MOUNT, message, warning(reason, message)) from error
    except MountFailure as error:
        events = (warning(reason, failure.message) for failure in error.failures)
        raise PodFault(Fault.FAILED_MOUNT, str(error), *events) from error
    return StepResult()
