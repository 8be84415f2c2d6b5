"""remove_pod: remove what is left of a stopped pod."""

from __future__ import annotations

from activities.pods.admission import forget
from activities.pods.removal import remove_remains
from activities.step_attempt import StepAttempt, warning
from syncpod.messages.steps import RemovePod, StepResult
from syncpod.node.pod_threads import DiskSilent


async def remove_pod(attempt: StepAttempt, request: RemovePod) -> StepResult:
    """Remove the pod as `remove_remains` does. Raises what it raises.

    If the removal is forced, the pod's name becomes free even while a disk with its files hangs. Garbage collection
    removes the rest once the disk answers.
    """
    try:
        return await remove_remains(attempt, request)
    except DiskSilent as silent:
        attempt.events.append(warning("RemainsLeft", f"what is left of the pod on disk stays for now: {silent}"))
        await forget(attempt)
        return StepResult()
