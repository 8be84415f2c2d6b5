"""kill_pod: stop everything of a pod, containers first, then its sandboxes."""

from __future__ import annotations

from activities.pods.stopping import stop_pod
from activities.step_attempt import StepAttempt
from syncpod.messages.steps import KillPod, StepResult


async def kill_pod(attempt: StepAttempt, request: KillPod) -> StepResult:
    """Stop the pod as `stop_pod` does. Raises what it raises."""
    return await stop_pod(attempt, request)
