"""Removal of objects that do not run: dead containers with their logs, containers that never ran, stopped sandboxes.

All removals go through this module, because a runtime may have lost track of its objects (see `lost_instances`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from activities.containers.lost_instances import discard, end_what_was_lost
from activities.containers.noted_starts import may_have_begun
from activities.node.clock import monotonic
from activities.step_attempt import StepAttempt
from syncpod.cri.errors import StillStarting, TaskLeft
from syncpod.journal.records import Instance
from syncpod.messages import ObservedContainer, ObservedSandbox
from syncpod.node.log_files import log_directory
from syncpod.node.log_links import remove_log_link
from syncpod.node.pod_threads import DiskWork
from syncpod.node.start_marks import withdraw_start_mark

START_SECONDS = 30.0
"""Seconds that a start under way may take: until then, its container is not removed."""


async def remove_dead(attempt: StepAttempt, container: ObservedContainer, *, keep_logs: bool = False) -> None:
    """Remove a container that the last listing shows as exited, with its logs unless they are to be kept.

    Mirrors kuberuntime_container.go, v1.36, removeContainer: the logs are removed first, so that no log is left without
    its container. Raises CriError, OSError.
    """
    if container.state != "exited":
        raise ValueError(f"container {container.id} is {container.state}: removing it would kill it without grace")
    if not keep_logs and container.log_path:
        await keep_log_ends(attempt, [container])
        await attempt.on_disk(DiskWork.LOGS, partial(_remove_logs_of, attempt.node.context.log_dir, container))
    await _remove(attempt, container.id)


async def keep_log_ends(
    attempt: StepAttempt, containers: Sequence[ObservedContainer], *, why: str = "", cause: str = ""
) -> None:
    """Record in the node's journal how containers ended, with the last lines of their logs. Raises nothing.

    `why` (a phrase) and `cause` (a `KillCause`) are the reason for which the node has ended them. Both are "" if the
    pod's workflow records the ends.
    """
    ended: dict[str, list[Instance]] = {}
    for each in containers:
        if each.exit is not None and each.has_run:
            end = replace(each.exit, cause=why, killed_by=cause)
            instance = Instance(each.name, each.restart_count, each.id, each.image, each.started_at, end)
            ended.setdefault(each.incarnation or attempt.ref.incarnation, []).append(instance)
    for incarnation, instances in ended.items():  # an earlier life of the pod may have left some
        await attempt.node.agent.journal.keep(attempt.ref.model_copy(update={"incarnation": incarnation}), instances)


async def remove_unstarted(attempt: StepAttempt, container_id: str, *, exited: bool = False) -> bool:
    """Remove a container that does not run: created, or `exited` with a StartError. Return whether it is gone.

    The container stays if the runtime refuses the removal because of a start under way, sent by a client that has died
    or is about to give up. That start ends as running or as a StartError, so the caller must look again. For
    START_SECONDS the removal is not sent again, since just after a successful start it would kill the container. After
    that time it is sent again, since the runtime may have been replaced.

    The container's start mark is withdrawn before the removal, which frees the container's number. The mark is put back
    if a start turns out to be under way. If the container may have run, the mark stays, and the number is used up.
    Raises CriError, OSError.
    """
    found = attempt.starting.get(container_id)
    if not exited and found is not None and monotonic() - found < START_SECONDS:
        return False
    begun = not exited and await may_have_begun(attempt, container_id)
    context, uid = attempt.node.context, attempt.ref.uid
    mark = None if begun else await asyncio.to_thread(withdraw_start_mark, context, uid, container_id)
    try:
        await _remove(attempt, container_id)
    except StillStarting:
        if mark is not None:
            await asyncio.to_thread(mark.put_back)
        attempt.starting[container_id] = monotonic()
        return False
    if mark is not None:
        await asyncio.to_thread(mark.drop)
    if begun:
        await end_what_was_lost(attempt, [container_id])
    return True


async def remove_given_up(attempt: StepAttempt, container_id: str) -> None:
    """Remove a container whose start the runtime gave up although its process may have started, and end that process.

    Its start mark stays, since it may have run. Raises CriError.
    """
    await end_what_was_lost(attempt, [container_id])
    await _remove(attempt, container_id)


async def remove_sandbox(attempt: StepAttempt, sandbox: ObservedSandbox) -> None:
    """Remove a stopped sandbox, and processes that the runtime left in it. Raises CriError.

    If RunPodSandbox was cut off, containerd 2 reports the sandbox as stopped and removed, but leaves its pause process
    behind, not yet started and listed nowhere. This process would keep the pod's cgroup from being removed. So it is
    killed while the sandbox's id is still known.
    """
    await end_what_was_lost(attempt, [sandbox.id])
    await attempt.node.cri.remove_pod_sandbox(sandbox.id)


async def _remove(attempt: StepAttempt, container_id: str) -> None:
    """Remove a container, and first a task that blocks its removal. Raises CriError."""
    try:
        await attempt.node.cri.remove_container(container_id)
    except TaskLeft:
        if not await discard(attempt, container_id):
            raise
        await _remove(attempt, container_id)


def _remove_logs_of(log_dir: Path, container: ObservedContainer) -> None:
    log = Path(container.log_path)
    remove_log_link(log_dir, log, container.name, container.id)
    remove_logs(log_dir, log)


def remove_logs(log_dir: Path, log: Path) -> None:
    """Remove a container's log and its rotated files: `<n>.log`, `<n>.log.<time>`, `<n>.log.<time>.gz`.

    `log` comes from the runtime: a path other than `<log_dir>/<pod>/<container>/<n>.log` is not ours and stays. If a
    directory on that path is a link, a pod has put the link there, and its target stays too.
    Mirrors kuberuntime_container.go, v1.36, removeContainerLog. Blocks; safe to repeat. Raises OSError.
    """
    parts = log.relative_to(log_dir).parts if log.is_relative_to(log_dir) else ()
    if len(parts) != 3 or ".." in parts:
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), log_directory(log) as directory:
        for name in (log.name, *directory.names(log.name)):
            directory.remove(name)
