"""kill_pod: stop everything of a pod, containers first, then its sandboxes."""

from __future__ import annotations

import asyncio

from temporalio import activity

from activities.attempt import Attempt
from activities.ending import Selection, end_containers
from syncpod.cri.errors import NotFound
from syncpod.messages import KillPod, KillTarget, ObservedPod, StepResult


async def kill_pod(attempt: Attempt, request: KillPod) -> StepResult:
    """Stop all containers of the pod in their order, then every sandbox of it, until nothing of it runs.

    StopPodSandbox ends containers at once, without grace, so it is called only when a listing shows none alive; what
    appears after it (a start that was under way) is stopped in turn. What is not ours is not touched. Dead containers
    and sandboxes stay for remove_pod.

    Cancelled, the step ends at once with outcome STOPPING, while the stops that it sent go on; the next kill_pod, with
    a shorter grace, sends its own beside them.

    Mirrors kuberuntime_manager.go, v1.36, killPodWithSyncResult. Difference: there the sandboxes are stopped even when
    a container could not be. Raises CriError: killing is retried without end.
    """
    activity.logger.info("kills pod %s/%s: %s", request.ref.namespace, request.ref.name, request.message)
    targets = {target.id: target for target in request.targets}
    for target in request.targets:
        attempt.say("Killing", f"Stopping container {target.name}", target.name)

    def alive(view: ObservedPod) -> Selection:
        return [
            (each, targets.get(each.id) or KillTarget(id=each.id, name=each.name, grace_seconds=request.grace_seconds))
            for each in view.containers
            if each.state != "exited"
        ]

    while True:
        view = await end_containers(attempt, alive)
        await stop_sandboxes(attempt, view)
        view = await attempt.read()
        if not alive(view):
            return StepResult(status=view)


async def stop_sandboxes(attempt: Attempt, view: ObservedPod) -> None:
    """Stop all sandboxes of a pod of which nothing runs: their pause processes end, their networks are taken down.

    Those not ready too: one may have kept its network or its name. A sandbox that is gone is stopped. When some fail
    the others are still stopped, and the first CriError is raised.
    """

    async def stop(sandbox_id: str) -> None:
        try:
            await attempt.node.cri.stop_pod_sandbox(sandbox_id)
        except NotFound:
            return

    attempt.doing = f"stops {len(view.sandboxes)} sandbox(es)"
    outcomes = await asyncio.gather(*(stop(sandbox.id) for sandbox in view.sandboxes), return_exceptions=True)
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
