"""Removing the remains of a stopped pod: its containers, sandboxes, cgroup, directories and logs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial

from temporalio import activity

from activities.containers.lost_instances import say_killed
from activities.containers.removal import keep_log_ends, remove_dead, remove_sandbox, remove_unstarted
from activities.pods.admission import forget
from activities.pods.stopping import stop_pod, stop_sandboxes
from activities.step_attempt import NotYet, StepAttempt
from syncpod.kernel.cgroupfs import CgroupBusy
from syncpod.messages import KillCause, ObservedPod
from syncpod.messages.steps import KillPod, Outcome, StepResult
from syncpod.node.cgroups import kill_pod_cgroup, remove_pod_cgroup
from syncpod.node.directories import remove_pod_directories
from syncpod.node.pod_threads import DiskWork
from syncpod.node.tombstones import write_tombstone
from syncpod.translation.names import POD_UID_LABEL


async def leave_tombstone(attempt: StepAttempt) -> bool:
    """Write the tombstone of this life of the pod, and free its UID; return whether it is written.

    It is not written for a pod without an incarnation, or if the disk is full: nothing may block a pod's removal.
    """
    context, ref = attempt.node.context, attempt.ref
    if not ref.incarnation:
        return False
    try:
        await asyncio.to_thread(write_tombstone, context, ref.uid, ref.incarnation)
    except OSError as error:
        activity.logger.warning("the end of pod %s/%s cannot be noted: %s", ref.namespace, ref.name, error.strerror)
        return False
    attempt.node.uids.release(ref)
    return True


async def stop_and_remove(attempt: StepAttempt, kill: KillPod, cause: KillCause) -> StepResult:
    """Stop a pod that no workflow ends, and remove its remains. Raises the errors of `stop_pod` and `remove_remains`.

    For each container that was alive, the node's journal records the kill's message and `cause` as the reason.
    """
    alive = {each.id for each in (await attempt.read()).containers if each.state != "exited"}
    stopped = (await stop_pod(attempt, kill)).status
    killed = [each for each in stopped.containers if each.id in alive]
    await keep_log_ends(attempt, killed, why=kill.message, cause=cause)
    return await remove_remains(attempt)


async def remove_remains(
    attempt: StepAttempt, *, stopped: Collection[str] = (), patience_seconds: float | None = None
) -> StepResult:
    """Remove the pod's containers and sandboxes, its cgroup in every controller, its directory and its logs.

    Nothing is removed while a container of the pod is alive: `stop_pod` has to end it first, so the outcome is then
    STOPPING, with the status that shows the container. Any part may be gone already, and the removal may be repeated
    from any point. Objects that are not ours are neither listed nor touched. Sandboxes that a kill has `stopped` (ids)
    are not stopped again.

    Processes that are still in the cgroup when the runtime lists nothing of the pod any more are killed: the runtime
    started them for a caller that died, and has lost track of them.

    Mirrors kubelet.go, v1.36, SyncTerminatedPod (volumes, cgroup), and the kubelet's garbage collection
    (kuberuntime_gc.go: containers, sandboxes, log directories). Raises CriError, CgroupBusy, StillMounted, NotYet;
    Interrupted before anything has been removed, or while a disk hangs; DiskSilent after `patience_seconds` (None:
    never). The pod's record is removed last: until then it shows to which pod the rest belongs.
    """
    view = await attempt.look(_has_ended)
    attempt.checkpoint()
    alive = [each for each in view.containers if each.state in ("running", "unknown")]
    if alive:
        names = ", ".join(f"{each.name} ({each.state})" for each in alive)
        return StepResult(status=view, outcome=Outcome.STOPPING, message=f"still alive: {names}")
    await keep_log_ends(attempt, view.containers)
    for container in view.containers:
        # Their logs go with the pod's directory, all at once.
        if container.state == "exited":
            await remove_dead(attempt, container, keep_logs=True)
        elif not await remove_unstarted(attempt, container.id):
            raise NotYet(f"not removed while {container.name} is being started")
    await stop_sandboxes(attempt, view, stopped=stopped)
    for sandbox in view.sandboxes:
        attempt.doing = f"removes sandbox {sandbox.attempt}"
        await remove_sandbox(attempt, sandbox)
    attempt.doing = "removes the pod's cgroup, directories and logs"
    context, ref = attempt.node.context, attempt.ref
    await _remove_cgroup(attempt, ref.uid)
    await leave_tombstone(attempt)
    removing = partial(remove_pod_directories, context, namespace=ref.namespace, name=ref.name, uid=ref.uid)
    await attempt.on_disk(DiskWork.REMOVE, removing, patience_seconds=patience_seconds)
    attempt.node.uids.release(ref)
    await forget(attempt)
    return StepResult()


def _has_ended(view: ObservedPod) -> bool:
    """Return whether a listing shows only remains of a kill: as only steps make anything, nothing can be alive now."""
    return (
        bool(view.sandboxes)
        and not any(sandbox.ready for sandbox in view.sandboxes)
        and all(container.state == "exited" for container in view.containers)
    )


async def _remove_cgroup(attempt: StepAttempt, uid: str) -> None:
    """Remove the pod's cgroup. Kill processes that are left in it, unless another owner has a pod of that UID.

    Raises CgroupBusy, CriError, OSError.
    """
    node = attempt.node
    try:
        await asyncio.to_thread(remove_pod_cgroup, node.context, uid)
    except CgroupBusy:
        of_this_uid = {POD_UID_LABEL: uid}
        others = await asyncio.gather(
            node.cri.list_pod_sandboxes(labels=of_this_uid), node.cri.list_containers(labels=of_this_uid)
        )
        if any(others):
            raise
        say_killed(attempt, await asyncio.to_thread(kill_pod_cgroup, node.context, uid))
        await asyncio.to_thread(remove_pod_cgroup, node.context, uid)
