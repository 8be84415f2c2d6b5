"""kill_pod: stop everything of a pod, containers first, then its sandboxes."""

from __future__ import annotations

from activities.pods.removal import leave_tombstone, remove_remains
from activities.pods.stopping import stop_pod
from activities.step_attempt import StepAttempt
from syncpod.messages.steps import KillPod, Outcome, StepResult


async def kill_pod(attempt: StepAttempt, request: KillPod) -> StepResult:
    """Stop the pod as `stop_pod` does. The life of a deleted pod is over then, and its workflow may end.

    The node removes the remains; the tombstone allows that. Where none can be written, nothing would say so later, and
    it is removed here.

    The workflow of a deleted pod that knows of nothing to stop may have begun just now, with a pod that is there. Then
    the outcome is STOPPING, with the status that shows it: the next kill stops its containers in their order. Raises
    what `stop_pod` and `remove_remains` raise.
    """
    if request.deleted and not request.targets:
        view = await attempt.read()
        if any(each.state != "exited" for each in view.containers):
            return StepResult(status=view, outcome=Outcome.STOPPING, message="the pod has containers that are alive")
    stopped = await stop_pod(attempt, request)
    if not request.deleted:
        return stopped
    if not await leave_tombstone(attempt):
        removed = await remove_remains(attempt, stopped=[each.id for each in stopped.status.sandboxes])
        if removed.outcome != Outcome.DONE:
            return removed
    return stopped.model_copy(update={"over": True})
