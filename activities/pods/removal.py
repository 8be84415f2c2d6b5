"""Removing the remains of a stopped pod: its containers, sandboxes, cgroup, directories and logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from activities.containers.lost_instances import report_killed
from activities.containers.removal import keep_log_ends, remove_dead, remove_sandbox, remove_unstarted
from activities.pods.admission import free_resources
from activities.pods.life_end import leave_tombstone
from activities.pods.stopping import stop_pod, stop_sandboxes
from activities.step_attempt import NotYet, StepAttempt
from syncpod.kernel.cgroupfs import CgroupBusy
from syncpod.messages import KillCause, ObservedPod
from syncpod.messages.identity import PodRef
from syncpod.messages.steps import KillPod, Outcome, StepResult
from syncpod.node.cgroups import kill_pod_cgroup, remove_pod_cgroup
from syncpod.node.directories import remove_pod_directories
from syncpod.node.pod_cgroups import remove_empty_tiers
from syncpod.node.pod_threads import DiskWork
from syncpod.translation.context import NodeContext
from syncpod.translation.names import POD_UID_LABEL


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
    attempt: StepAttempt,
    *,
    listing: ObservedPod | None = None,
    stopped: Collection[str] = (),
    is_over: bool = False,
    patience_seconds: float | None = None,
) -> StepResult:
    """Remove the pod's containers and sandboxes, its cgroup in every controller, its directory and its logs.

    Nothing is removed while a container of the pod is alive: `stop_pod` has to end it first, so the outcome is then
    STOPPING, with the status that shows the container. Any part may be gone already, and the removal may be repeated
    from any point. Objects that are not ours are neither listed nor touched. Sandboxes that a kill has `stopped` (ids)
    are not stopped again. If the kill's `listing` is given and shows nothing alive, the pod is not listed again. A life
    without a tombstone gets one, unless it `is_over`: then it has one.

    Processes that are still in the cgroup when the runtime lists nothing of the pod any more are killed: the runtime
    started them for a caller that died, and has lost track of them.

    Mirrors kubelet.go, v1.36, SyncTerminatedPod (volumes, cgroup), and the kubelet's garbage collection
    (kuberuntime_gc.go: containers, sandboxes, log directories). Raises CriError, CgroupBusy, StillMounted, NotYet;
    Interrupted before anything has been removed, or while a disk hangs; DiskSilent after `patience_seconds` (None:
    never). The pod's record is removed last: until then it shows to which pod the rest belongs.
    """
    view = listing if listing is not None and _has_ended(listing) else await attempt.read()
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
    if not is_over:
        await leave_tombstone(attempt)
    removing = partial(_remove_files, attempt.node.context, attempt.ref)
    await _without_lost_processes(
        attempt, lambda: attempt.on_disk(DiskWork.REMOVE, removing, patience_seconds=patience_seconds)
    )
    attempt.node.uids.release(attempt.ref)
    await free_resources(attempt, "pods_removed")
    return StepResult()


def _has_ended(view: ObservedPod) -> bool:
    """Return whether a listing shows only remains of a kill: as only steps make anything, nothing can be alive now."""
    return (
        bool(view.sandboxes)
        and not any(sandbox.ready for sandbox in view.sandboxes)
        and all(container.state == "exited" for container in view.containers)
    )


def _remove_files(node: NodeContext, ref: PodRef) -> None:
    """Remove the pod's cgroup, then its directories and logs, then the cgroups of QoS classes without pods. Blocks.

    Raises CgroupBusy, before anything is removed; StillMounted, OSError.
    """
    remove_pod_cgroup(node, ref.uid)
    remove_pod_directories(node, namespace=ref.namespace, name=ref.name, uid=ref.uid)
    remove_empty_tiers(node)


async def _without_lost_processes(attempt: StepAttempt, remove: Callable[[], Awaitable[None]]) -> None:
    """Remove the pod's files. Kill processes that are left in its cgroup, unless another owner has a pod of that UID.

    Raises CgroupBusy, CriError, and the errors of `remove`.
    """
    node, uid = attempt.node, attempt.ref.uid
    try:
        await remove()
    except CgroupBusy:
        of_this_uid = {POD_UID_LABEL: uid}
        others = await asyncio.gather(
            node.cri.list_pod_sandboxes(labels=of_this_uid), node.cri.list_containers(labels=of_this_uid)
        )
        if any(others):
            raise
        report_killed(attempt, await asyncio.to_thread(kill_pod_cgroup, node.context, uid))
        await remove()
