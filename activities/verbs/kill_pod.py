"""kill_pod: stop a whole pod, first its containers, then its sandboxes."""

from __future__ import annotations

from activities.pods.removal import end_life
from activities.pods.stopping import stop_pod
from activities.step_attempt import StepAttempt
from syncpod.messages.steps import KillPod, Outcome, StepResult


async def kill_pod(attempt: StepAttempt, request: KillPod) -> StepResult:
    """Stop the pod as `stop_pod` does; if the pod was deleted, as `end_life` does: its workflow may then end.

    If a deletion names no targets, its workflow may have just begun, and its view may still lack the pod's containers.
    If any of them is alive, nothing is stopped: the outcome is STOPPING, and the status lists the containers, so that
    the next kill stops them in their order. Raises the errors of `end_life`.
    """
    if not request.deleted:
        return await stop_pod(attempt, request)
    if not request.targets:
        view = await attempt.read()
        if any(each.state != "exited" for each in view.containers):
            return StepResult(status=view, outcome=Outcome.STOPPING, message="the pod has containers that are alive")
    return await end_life(attempt, request)
