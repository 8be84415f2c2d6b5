"""Stopping a whole pod: first its containers, then its sandboxes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from temporalio import activity

from activities.containers.ending import Selection, end_containers, kill_target, tell_hooks
from activities.containers.kill_timeout import within_kill_timeout
from activities.containers.lost_instances import end_what_was_lost
from activities.containers.noted_starts import with_noted_starts
from activities.pods.admission import finish
from activities.step_attempt import Polls, StepAttempt
from syncpod.cri.errors import NotFound
from syncpod.messages import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.messages.steps import KillPod, KillTarget, StepResult
from syncpod.node.pod_records import read_pod_record
from syncpod.pod import Pod

_LOOKS: Final = 6
"""How many times, within about a second, the pod is read again if it shows a stopped sandbox as ready. After that the
sandbox is stopped again."""


async def stop_pod(attempt: StepAttempt, request: KillPod) -> StepResult:
    """Stop all containers of the pod in their order, then all its sandboxes, until nothing of it runs.

    StopPodSandbox ends containers at once, without grace. So it is called only when a listing shows none alive, or when
    the runtime has stopped every container that the pod's last step has listed. A container that appears later (its
    start was under way) is stopped in turn, and processes that the runtime has lost track of are killed. Anything that
    is not ours is not touched. Dead containers and sandboxes stay for `remove_remains`. An instance that was started
    and is no longer listed is in the result, as ended (see `with_noted_starts`).

    A cancelled step ends at once with outcome STOPPING, while the stops that it sent go on. The next kill, with a
    shorter grace, sends new ones in addition.

    Mirrors kuberuntime_manager.go, v1.36, killPodWithSyncResult. Difference: there the sandboxes are stopped even when
    a container could not be. If the pod ends for good, its resources on the node are free again. Raises CriError and
    OSError, after which Temporal tries again without end; PodFault if it takes too long (see `kill_timeout`).
    """
    return await within_kill_timeout(attempt, request.grace_seconds, _stop(attempt, request))


async def _stop(attempt: StepAttempt, request: KillPod) -> StepResult:
    activity.logger.info("kills pod %s/%s: %s", request.ref.namespace, request.ref.name, request.message)
    record = await asyncio.to_thread(read_pod_record, attempt.node.context, request.ref.uid)
    pod = record.pod if record is not None else None
    targets = {target.id: target for target in request.targets}
    for target in request.targets:
        attempt.say_at_once("Killing", f"Stopping container {target.name}", target.name)

    def alive(view: ObservedPod) -> Selection:
        for each in view.containers:
            if each.state != "exited" and each.id not in targets:
                targets[each.id] = _unforeseen(each, pod, request)
        return [(each, targets[each.id]) for each in view.containers if each.state != "exited"]

    polls = Polls(attempt)
    while True:
        view = await end_containers(attempt, alive, suffices=partial(_shows_what_to_stop, request))
        attempt.checkpoint()
        # Concurrently: a container that the runtime has lost has no grace, so its sandbox need not wait for it.
        ending_lost = end_what_was_lost(attempt, [each.id for each in view.containers])
        for failure in await asyncio.gather(
            ending_lost, stop_sandboxes(attempt, view, stopped=request.stopped), return_exceptions=True
        ):
            if failure is not None:
                raise failure
        view = await _listed_as_stopped(attempt)
        if not alive(view) and not any(sandbox.ready for sandbox in view.sandboxes):
            if request.final:
                await finish(attempt, evicted=request.evicted)
            earlier = _found_by_an_earlier_try(attempt, view, targets, pod, request)
            hooks = tell_hooks(attempt, [*targets.values(), *earlier])
            return StepResult(status=await with_noted_starts(attempt, pod, view), pre_stops=hooks)
        await polls.pause()


async def _listed_as_stopped(attempt: StepAttempt) -> ObservedPod:
    """Return a listing that shows the stopped sandboxes as not ready; after about a second, the newest listing.

    containerd 2 may list a sandbox as ready for a moment after it has stopped it, and the next decision would use it.
    """
    polls = Polls(attempt)
    view = await attempt.read()
    for _ in range(_LOOKS):
        if not any(sandbox.ready for sandbox in view.sandboxes) or any(c.state != "exited" for c in view.containers):
            break
        await polls.pause()
        view = await attempt.read()
    return view


def _shows_what_to_stop(request: KillPod, view: ObservedPod) -> bool:
    """Return whether the listing of the pod's last step shows everything that the kill has to stop now.

    Only steps make something, so the listing lacks nothing. It does no harm to stop a container that has exited since,
    except that its preStop hook would run. So the pod is read again if a target has a hook, or a container is neither
    running nor exited.
    """
    alive = [each for each in view.containers if each.state != "exited"]
    meant = {target.id for target in request.targets if target.pre_stop is None}
    return bool(alive) and all(each.state == "running" and each.id in meant for each in alive)


def _found_by_an_earlier_try(
    attempt: StepAttempt, view: ObservedPod, targets: Mapping[str, KillTarget], pod: Pod | None, request: KillPod
) -> list[KillTarget]:
    """Return containers that an earlier try may have stopped before its worker was killed. The request lacks them.

    They ended after the kill was decided. At that time they were still being started, so the workflow did not list
    them.
    """
    if attempt.number == 1:
        return []
    decided = activity.info().scheduled_time
    return [
        _unforeseen(each, pod, request)
        for each in view.containers
        if each.id not in targets and each.finished_at is not None and each.finished_at >= decided
    ]


def _unforeseen(container: ObservedContainer, pod: Pod | None, request: KillPod) -> KillTarget:
    """Return how to stop a container that the request does not name: it was being started when the kill was decided.

    As in the kubelet, its preStop hook runs too, unless the pod's grace period is 0.
    """
    hook = pod is not None and pod.spec.termination_grace_period_seconds != 0
    return kill_target(container.id, container.name, pod, grace_seconds=request.grace_seconds, with_hook=hook)


async def stop_sandboxes(attempt: StepAttempt, view: ObservedPod, *, stopped: Collection[str] = ()) -> None:
    """Stop all sandboxes of a pod with no running container: their pause processes end, their networks go down.

    A sandbox that is not ready may have kept its network or its name, so it is stopped too, unless a kill has `stopped`
    it (ids). A sandbox that is gone counts as stopped. If a stop fails, the other sandboxes are still stopped, and the
    first CriError is raised.
    """
    chosen = [sandbox for sandbox in view.sandboxes if sandbox.ready or sandbox.id not in stopped]
    attempt.doing = f"stops {len(chosen)} sandbox(es)"
    stops = (stop_sandbox(attempt, sandbox) for sandbox in chosen)
    for outcome in await asyncio.gather(*stops, return_exceptions=True):
        if outcome is not None:
            raise outcome


async def stop_sandbox(attempt: StepAttempt, sandbox: ObservedSandbox) -> None:
    """Stop one sandbox without running containers. NotFound is success. Raises CriError."""
    try:
        await attempt.node.cri.stop_pod_sandbox(sandbox.id)
    except NotFound:
        return
