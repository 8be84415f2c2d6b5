"""Stopping a whole pod: first its containers, then its sandboxes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

from temporalio import activity

from activities.containers.ending import Selection, emit_hook_events, end_containers, kill_target
from activities.containers.kill_timeout import within_kill_timeout
from activities.containers.lost_instances import end_what_was_lost
from activities.containers.noted_starts import with_noted_starts
from activities.containers.removal import keep_log_ends
from activities.pods.life_end import note_end
from activities.step_attempt import Polls, StepAttempt
from syncpod.cri.errors import NotFound
from syncpod.messages import KillCause, ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.messages.steps import KillPod, KillTarget, StepResult
from syncpod.node.pod_records import read_pod_record

_LOOKS: Final = 6
"""How many times, within about a second, the pod is read again if it shows a stopped sandbox as ready. After that the
sandbox is stopped again."""


async def stop_pod(attempt: StepAttempt, request: KillPod, cause: KillCause | None = None) -> StepResult:
    """Stop all containers of the pod in their order, then all its sandboxes, until nothing of it runs.

    StopPodSandbox ends containers at once, without grace. So it is called only when a listing shows none alive, or when
    the runtime has stopped every container that the pod's last step has listed. A container that appears later (its
    start was under way) is stopped in turn, and processes that the runtime has lost track of are killed. Anything that
    is not ours is not touched. Dead containers and sandboxes stay for `remove_remains`. An instance that was started
    and is no longer listed is in the result, as ended (see `with_noted_starts`).

    A cancelled step ends at once with outcome STOPPING, while the stops that it sent go on. The next kill, with a
    shorter grace, sends new ones in addition.

    Mirrors kuberuntime_manager.go, v1.36, killPodWithSyncResult. Difference: there the sandboxes are stopped even when
    a container could not be. The end is noted (`note_end`); the result is `over` if a deleted pod's life has a
    tombstone now. If no workflow records the ends of the stopped containers, the node's journal does, with the
    request's message and the `cause`. Raises CriError and OSError, after which Temporal tries again without end;
    PodFault if it takes too long (see `kill_timeout`).
    """
    return await within_kill_timeout(attempt, request.grace_seconds, _stop(attempt, request, cause))


async def _stop(attempt: StepAttempt, request: KillPod, cause: KillCause | None) -> StepResult:
    activity.logger.info("kills pod %s/%s: %s", request.ref.namespace, request.ref.name, request.message)
    targets = _Targets(attempt, request)
    for target in request.targets:
        attempt.emit_now("Killing", f"Stopping container {target.name}", target.name)
    polls = Polls(attempt)
    while True:
        view = await end_containers(attempt, targets.alive, suffices=partial(_shows_what_to_stop, request))
        attempt.checkpoint()
        # Concurrently: a container that the runtime has lost has no grace, so its sandbox need not wait for it.
        ending_lost = end_what_was_lost(attempt, [each.id for each in view.containers])
        for failure in await asyncio.gather(
            ending_lost, stop_sandboxes(attempt, view, stopped=request.stopped), return_exceptions=True
        ):
            if failure is not None:
                raise failure
        view = await _listed_as_stopped(attempt)
        if not await targets.alive(view) and not any(sandbox.ready for sandbox in view.sandboxes):
            stopped = await targets.stopped(view)
            if cause is not None:
                ids = {target.id for target in stopped}
                killed = [each for each in view.containers if each.id in ids]
                await keep_log_ends(attempt, killed, why=request.message, cause=cause)
            starts, is_over = await note_end(attempt, request)
            status = with_noted_starts(attempt, starts, view)
            return StepResult(status=status, pre_stops=emit_hook_events(attempt, stopped), over=is_over)
        await polls.pause()


class _Targets:
    """How to stop each container of a pod: as the kill requests, or as its pod would if the request lacks it.

    The request lacks a container that was being started when the kill was decided. As in the kubelet, its preStop hook
    runs too, unless the pod's grace period is 0.
    """

    def __init__(self, attempt: StepAttempt, request: KillPod) -> None:
        self._attempt, self._request = attempt, request
        self._known = {target.id: target for target in request.targets}

    async def alive(self, view: ObservedPod) -> Selection:
        """Return the containers that have not exited, and how to stop each. Raises OSError."""
        found = [each for each in view.containers if each.state != "exited"]
        await self._add(each for each in found if each.id not in self._known)
        return [(each, self._known[each.id]) for each in found]

    async def stopped(self, view: ObservedPod) -> Collection[KillTarget]:
        """Return the containers that this try and earlier ones have stopped. Raises OSError.

        An earlier try, whose worker was killed, may have stopped others than this one: they ended after the kill was
        decided.
        """
        if self._attempt.number > 1:
            decided = activity.info().scheduled_time
            await self._add(
                each
                for each in view.containers
                if each.id not in self._known and each.finished_at is not None and each.finished_at >= decided
            )
        return self._known.values()

    async def _add(self, containers: Iterable[ObservedContainer]) -> None:
        """Add containers that the request lacks, by the pod's record."""
        lacking = list(containers)
        if not lacking:
            return
        record = await asyncio.to_thread(read_pod_record, self._attempt.node.context, self._request.ref.uid)
        pod = record.pod if record is not None else None
        hook = pod is not None and pod.spec.termination_grace_period_seconds != 0
        grace = self._request.grace_seconds
        for each in lacking:
            self._known[each.id] = kill_target(each.id, each.name, pod, grace_seconds=grace, with_hook=hook)


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
