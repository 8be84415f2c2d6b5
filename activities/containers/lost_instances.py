"""Ending processes in a container or sandbox that the runtime lists as ended.

containerd makes a task, creates the task's process, and starts it. The task stays if StartContainer or RunPodSandbox is
cut off between the first two (its caller was killed, or its deadline passed), or if the cleanup after a failure fails.
CRI does not show such a task: the container is EXITED with a StartError, the sandbox NOTREADY. StopContainer and
StopPodSandbox then do nothing, RemoveContainer is refused while the task exists, and a kill of its process leaves the
task. Only containerd's own API, or a restart of containerd, removes the task; the kubelet would request the removal for
ever.

If the call is cut off earlier, containerd 2 has no record of the process that its shim is still creating. That process
then waits to be started, and only the pod's cgroup shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from temporalio import activity

from activities.step_attempt import StepAttempt, warning
from syncpod.cri.errors import NotFound, Unimplemented
from syncpod.node.cgroups import populated


async def end_what_was_lost(attempt: StepAttempt, ids: Collection[str]) -> None:
    """End the processes left in containers or sandboxes of the pod that are listed as ended. Safe to repeat.

    Such a process shows in its container's cgroup, which is normally empty when the end is listed. Raises CriError,
    OSError.
    """
    for container_id in await asyncio.to_thread(populated, attempt.node.context, attempt.ref.uid, ids):
        await discard(attempt, container_id)


async def discard(attempt: StepAttempt, container_id: str) -> bool:
    """Kill and delete the task of a container or sandbox of ours that the runtime lists as ended.

    Returns whether there was a task: False if it has gone meanwhile or the runtime is not containerd. Raises CriError.
    """
    attempt.doing = f"kills a task of {container_id} that the runtime lists as ended"
    try:
        await attempt.node.cri.discard_task(container_id)
    except (NotFound, Unimplemented):
        return False
    _report(attempt, f"Killed a task of {container_id} of an interrupted start, which the runtime listed as ended")
    return True


def report_killed(attempt: StepAttempt, pids: Collection[int]) -> None:
    """Report the processes that were found in the pod's cgroup after its end, and killed."""
    if pids:
        named = ", ".join(map(str, pids))
        _report(attempt, f"Killed processes that interrupted starts had left in the pod's cgroup: {named}")


def _report(attempt: StepAttempt, message: str) -> None:
    activity.logger.warning("%s", message)
    attempt.events.append(warning("LeftoverKilled", message))
