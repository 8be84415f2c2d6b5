"""The end of a life: a kill that leaves a tombstone, and the removal of what the kill leaves.

The remains are the pod's dead containers, sandboxes, cgroup, directories and logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final

from activities.containers.lost_instances import report_killed
from activities.containers.removal import keep_log_ends, remove_dead, remove_sandbox, remove_unstarted
from activities.pods.admission import free_resources
from activities.pods.stopping import stop_pod, stop_sandboxes
from activities.step_attempt import NotYet, StepAttempt
from syncpod.kernel.cgroupfs import CgroupBusy
from syncpod.messages import KillCause, ObservedPod
from syncpod.messages.identity import EndedLife, PodRef
from syncpod.messages.steps import KillPod, StepResult
from syncpod.node.cgroups import kill_pod_cgroup
from syncpod.node.directories import remove_pod_files
from syncpod.node.pod_cgroups import remove_empty_tiers
from syncpod.node.pod_threads import DiskWork
from syncpod.translation.context import NodeContext
from syncpod.translation.names import POD_UID_LABEL

_OVER: Final = "its life is over"


async def end_life(attempt: StepAttempt, kill: KillPod, cause: KillCause | None = None) -> StepResult:
    """Stop a pod that is deleted, as `stop_pod` does; its life is then over, and the result is `over`.

    By the life's tombstone, the node removes the remains later, also if this worker dies now. A life without an
    incarnation, or on a full disk, can have no tombstone: its remains are removed here. Raises the errors of `stop_pod`
    and `remove_remains`.
    """
    stopped = await stop_pod(attempt, kill, cause)
    if not stopped.over:
        await remove_remains(attempt, stopped.status, stopped=ended_life(kill.ref, stopped).stopped)
    return stopped.model_copy(update={"over": True})


def ended_life(ref: PodRef, killed: StepResult) -> EndedLife:
    """Return the life that `end_life` has just ended, as `remove_life` and the node's collector take it."""
    return EndedLife(ref, tuple(each.id for each in killed.status.sandboxes), killed.status)


async def remove_life(
    attempt: StepAttempt, life: EndedLife, *, grace_seconds: int, patience_seconds: float | None = None
) -> None:
    """Remove the remains of a life that has a tombstone, in the pod's turn.

    If the kill's listing shows nothing alive, the pod is not listed again. A container that has come to life since the
    kill is ended first, with this grace: the runtime has carried out a dead worker's start. Raises Interrupted, and the
    errors of `stop_pod` and `remove_remains`.
    """
    view = life.listing if life.listing is not None and _has_ended(life.listing) else await attempt.read()
    attempt.checkpoint()
    if _alive(view):
        kill = KillPod(ref=life.ref, grace_seconds=grace_seconds, message=_OVER, final=True, deleted=True)
        view = (await stop_pod(attempt, kill, KillCause.DELETED)).status
    await remove_remains(attempt, view, stopped=life.stopped, patience_seconds=patience_seconds)


async def remove_remains(
    attempt: StepAttempt,
    view: ObservedPod,
    *,
    stopped: Collection[str] = (),
    patience_seconds: float | None = None,
) -> None:
    """Remove the listed containers and sandboxes of a pod, its cgroup in every controller, its directory and its logs.

    Nothing is removed while a listed container is alive. Any part may be gone already, and the removal may be repeated
    from any point. Objects that are not ours are neither listed nor touched. Sandboxes that a kill has `stopped` (ids)
    are not stopped again.

    Processes that are still in the cgroup when the runtime lists nothing of the pod any more are killed: the runtime
    started them for a caller that died, and has lost track of them.

    Mirrors kubelet.go, v1.36, SyncTerminatedPod (volumes, cgroup), and the kubelet's garbage collection
    (kuberuntime_gc.go: containers, sandboxes, log directories). Raises NotYet, CriError, CgroupBusy, StillMounted;
    Interrupted while a disk hangs; DiskSilent after `patience_seconds` (None: never). The pod's record is removed last:
    until then it shows to which pod the rest belongs.
    """
    if alive := _alive(view):
        raise NotYet(f"still alive: {', '.join(alive)}")
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
    removing = partial(_remove_files, attempt.node.context, attempt.ref)
    await _without_lost_processes(
        attempt, lambda: attempt.on_disk(DiskWork.REMOVE, removing, patience_seconds=patience_seconds)
    )
    attempt.node.uids.release(attempt.ref)
    await free_resources(attempt, "pods_removed")


def _alive(view: ObservedPod) -> list[str]:
    """Return each container that runs, or may run, with its state. A created one can be removed without a kill."""
    return [f"{each.name} ({each.state})" for each in view.containers if each.state in ("running", "unknown")]


def _has_ended(view: ObservedPod) -> bool:
    """Return whether a listing shows only remains of a kill: as only steps make anything, nothing can be alive now."""
    return (
        bool(view.sandboxes)
        and not any(sandbox.ready for sandbox in view.sandboxes)
        and all(container.state == "exited" for container in view.containers)
    )


def _remove_files(node: NodeContext, ref: PodRef) -> None:
    """Remove the pod's files, then the cgroups of QoS classes without pods. Blocks. Raises as `remove_pod_files`."""
    remove_pod_files(node, namespace=ref.namespace, name=ref.name, uid=ref.uid)
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
