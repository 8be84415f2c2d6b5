"""Ending what runs, or waits to run, in a container or sandbox that its runtime holds for ended.

containerd makes a task, asks for its process, and starts it. Where StartContainer or RunPodSandbox is cut off between
the first two (its caller was killed, its time was over), or what was begun cannot be cleaned up after, the task stays,
and CRI no longer knows of it: the container is EXITED with a StartError, the sandbox NOTREADY. StopContainer and
StopPodSandbox then do nothing, RemoveContainer is refused for as long as the task is there, and killing its process
leaves the task. Only a restart of containerd, or its own API, ends that; the kubelet asks for the removal for ever.

Where it is cut off before that, containerd 2 forgets what its shim goes on to make: a process that waits to be started,
in the pod's cgroup alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from temporalio import activity

from activities.attempt import Attempt, warning
from syncpod.cri.errors import NotFound, Unimplemented
from syncpod.node.cgroups import populated


async def end_what_was_lost(attempt: Attempt, ids: Collection[str]) -> None:
    """End what still is in containers or sandboxes of the pod that are listed as ended. Safe to repeat.

    Their cgroups say whether there is anything: a runtime lists an end once nobody is left. Raises CriError, OSError.
    """
    for container_id in await asyncio.to_thread(populated, attempt.node.context, attempt.ref.uid, ids):
        await discard(attempt, container_id)


async def discard(attempt: Attempt, container_id: str) -> bool:
    """Kill and delete the task of a container or sandbox of ours that has ended, as its runtime believes.

    Say whether there was one: not where it has gone meanwhile, nor where the runtime is no containerd. Raises CriError.
    """
    attempt.doing = f"ends what the runtime has lost sight of in {container_id}"
    try:
        await attempt.node.cri.discard_task(container_id)
    except (NotFound, Unimplemented):
        return False
    _say(attempt, f"Killed what a start that was cut off had left in {container_id}, and the runtime had lost sight of")
    return True


def say_killed(attempt: Attempt, pids: Collection[int]) -> None:
    """Say which processes of the pod were found where nothing of it was to be any more, and killed."""
    if pids:
        named = ", ".join(map(str, pids))
        _say(attempt, f"Killed what starts that were cut off had left in the pod's cgroup: processes {named}")


def _say(attempt: Attempt, message: str) -> None:
    activity.logger.warning("%s", message)
    attempt.events.append(warning("LeftoverKilled", message))
