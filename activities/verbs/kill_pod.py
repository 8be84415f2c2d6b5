"""kill_pod: stop a whole pod, first its containers, then its sandboxes."""

from __future__ import annotations

from activities.pods.removal import remove_remains
from activities.pods.stopping import stop_pod
from activities.step_attempt import StepAttempt
from syncpod.messages.steps import KillPod, Outcome, StepResult


async def kill_pod(attempt: StepAttempt, request: KillPod) -> StepResult:
    """Stop the pod as `stop_pod` does. If the pod was deleted, its life is then over, and its workflow may end.

    The node removes the remains later, as the tombstone allows. If no tombstone can be written, they are removed here.

    If a deletion names no targets, its workflow may have just begun, and its view may still lack the pod's containers.
    If any of them is alive, nothing is stopped: the outcome is STOPPING, and the status lists the containers, so that
    the next kill stops them in their order. Raises the errors of `stop_pod` and `remove_remains`.
    """
    if request.deleted and not request.targets:
        view = await attempt.read()
        if any(each.state != "exited" for each in view.containers):
            return StepResult(status=view, outcome=Outcome.STOPPING, message="the pod has containers that are alive")
    stopped = await stop_pod(attempt, request)
    if stopped.over or not request.deleted:
        return stopped
    removed = await remove_remains(attempt, stopped=[each.id for each in stopped.status.sandboxes])
    return stopped.model_copy(update={"over": True}) if removed.outcome == Outcome.DONE else removed
