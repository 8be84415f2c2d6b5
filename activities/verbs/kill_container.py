"""kill_container: stop one container that is to be restarted or must end, and wait until it has ended."""

from __future__ import annotations

from activities.containers.ending import Selection, emit_hook_events, end_containers
from activities.containers.kill_timeout import within_kill_timeout
from activities.step_attempt import StepAttempt
from syncpod.messages import ObservedPod
from syncpod.messages.steps import KillContainer, StepResult


async def kill_container(attempt: StepAttempt, request: KillContainer) -> StepResult:
    """Stop the container within the rest of its grace period, and return once it is listed as exited or is gone.

    A container that is not listed as ours is not touched. If the step is cancelled, it ends at once with outcome
    STOPPING, while the stop that it sent goes on. Mirrors kuberuntime_container.go, v1.36, killContainer. Raises
    CriError, after which the kill is retried without end, and PodFault if it takes too long (see `kill_timeout`).
    """
    return await within_kill_timeout(attempt, request.target.grace_seconds, _kill(attempt, request))


async def _kill(attempt: StepAttempt, request: KillContainer) -> StepResult:
    target, begun = request.target, attempt.node.reader.now()
    attempt.emit_now("Killing", request.message or f"Stopping container {target.name}", target.name)

    async def alive(view: ObservedPod) -> Selection:
        return [(each, target) for each in view.containers if each.id == target.id and each.state != "exited"]

    view = await end_containers(attempt, alive)
    hooks = emit_hook_events(attempt, (target,))
    # In the first try, an end before `begun` is certainly not this step's work. In a later try, an earlier one may have
    # stopped the container.
    ended_before = attempt.number == 1 and any(
        each.id == target.id and each.finished_at is not None and each.finished_at < begun for each in view.containers
    )
    return StepResult(status=view, id=target.id, ended_before=ended_before, pre_stops=hooks)
