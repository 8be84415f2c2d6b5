"""remove_container: remove containers of a pod from the runtime, some of them after stopping them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from activities.containers.ending import Selection, end_containers
from activities.containers.kill_timeout import within_kill_timeout
from activities.containers.noted_starts import forget_start
from activities.containers.removal import keep_log_ends, remove_dead, remove_unstarted
from activities.step_attempt import StepAttempt
from syncpod.messages import ObservedPod
from syncpod.messages.steps import KillTarget, RemoveContainers, StepResult


async def remove_container(attempt: StepAttempt, request: RemoveContainers) -> StepResult:
    """Remove the listed containers, in their order; those in `kill` are stopped first, with the least grace (2 s).

    Logs go with them unless `keep_logs`. A container that is alive and not in `kill` stays, since its removal would
    kill it without grace; the status returned shows it. A container that is not listed as ours is not touched.
    The start mark of an exited container is removed too, because the workflow has already recorded its end. Otherwise a
    later kill of the pod would report that end again.

    Mirrors kuberuntime_manager.go, v1.36, SyncPod's reset list (kill with grace 0, which the kubelet raises to 2 s,
    then remove keeping logs), and purgeInitContainers. Raises CriError, OSError: removing is retried without end.
    """
    kill = frozenset(request.kill)
    view = await attempt.read()
    result = StepResult()
    for each in view.containers:
        if each.id in kill and each.state != "exited":
            attempt.emit_now("Killing", request.message or f"Stopping container {each.name}", each.name)

    async def to_end(view: ObservedPod) -> Selection:
        return [
            (each, KillTarget(id=each.id, name=each.name, grace_seconds=0))
            for each in view.containers
            if each.id in kill and each.state != "exited"
        ]

    if await to_end(view):
        view = (await within_kill_timeout(attempt, 0, _ended(attempt, to_end))).status
        # The workflow's next listing will not have these containers, so the result carries their ends.
        ended = [each for each in view.containers if each.id in kill]
        await keep_log_ends(attempt, ended, why=request.message, cause=request.cause)
        exits = (each.exit for each in ended if each.has_run)
        result = StepResult(stopped=tuple(exit_.in_brief for exit_ in exits if exit_ is not None))
    listed = {each.id: each for each in view.containers}
    for container_id in request.ids:
        container = listed.get(container_id)
        if container is None:
            continue
        attempt.checkpoint()
        if container.state == "exited":
            await forget_start(attempt, container_id)  # first: after a crash in between, a retry still lists it
            await remove_dead(attempt, container, keep_logs=request.keep_logs)
        elif container.state == "created":
            await remove_unstarted(attempt, container.id)
    return result


async def _ended(attempt: StepAttempt, to_end: Callable[[ObservedPod], Awaitable[Selection]]) -> StepResult:
    return StepResult(status=await end_containers(attempt, to_end))
