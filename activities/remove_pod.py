"""remove_pod: remove what is left of a stopped pod."""

from __future__ import annotations

from activities.pods.removal import remove_remains
from activities.step_attempt import StepAttempt
from syncpod.messages.steps import RemovePod, StepResult


async def remove_pod(attempt: StepAttempt, request: RemovePod) -> StepResult:
    """Remove the pod as `remove_remains` does. Raises what it raises."""
    return await remove_remains(attempt, request)
