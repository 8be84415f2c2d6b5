"""Recording how a container ends while its StartContainer call is unanswered, in case the runtime never reports it.

Until StartContainer returns, the runtime lists the container as created, even if its process has ended. If the caller
dies within the call, containerd kills the container's processes, loses the exit code, and lists a failed start. But the
process may have ended by itself before that. So this node watches the process from its creation, reads its exit code
from the kernel, and keeps it on disk for the next worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from temporalio import activity

from activities.step_attempt import StepAttempt
from syncpod.kernel.pidfd_info import exit_code_once_reaped
from syncpod.kernel.process_end import is_first_of_a_namespace
from syncpod.node.cgroups import first_process
from syncpod.node.seen_exits import SeenExits

_LOOK_SECONDS = 0.01
"""Seconds between two looks for the process. Between the creation and the release of the process are two calls of the
OCI runtime, which take longer."""
_KILLED = 128 + signal.SIGKILL
"""The exit code of a process that was killed."""


@contextlib.asynccontextmanager
async def end_noted(attempt: StepAttempt, container_id: str) -> AsyncIterator[None]:
    """If the container's first process ends during the block, write its exit code to the node's record of exits.

    A process that was killed is not noted: the runtime kills a process whose start it gives up, perhaps before the
    program has run. Nothing is noted either if the kernel does not report exit codes, if the runtime is in another pid
    namespace, or if the container has no pid namespace of its own.
    """
    exits = attempt.node.reader.exits
    if exits is None or not exits.kernel_tells or not attempt.node.context.shares_pids:
        yield
        return
    watching = asyncio.create_task(_note_end(attempt, container_id, exits), name=f"unanswered start of {container_id}")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})
        if not watching.cancelled() and (error := watching.exception()) is not None:
            activity.logger.info("the start of %s is not watched: %s", container_id, error)


async def _note_end(attempt: StepAttempt, container_id: str, exits: SeenExits) -> None:
    """Wait for the container's first process and for its end, and note its exit code. Raises OSError, UnsafeName."""
    with contextlib.ExitStack() as held:
        pidfd = await _first_process(attempt, container_id)
        held.callback(os.close, pidfd)
        await _readable(pidfd)
        at = attempt.node.reader.now()
        code = await exit_code_once_reaped(pidfd)
        if code != _KILLED:
            exits.note(container_id, code, at)


async def _first_process(attempt: StepAttempt, container_id: str) -> int:
    """Return a pidfd of the container's first process, once the runtime has made it. Raises OSError, UnsafeName."""
    while True:
        pid = await asyncio.to_thread(first_process, attempt.node.context, attempt.ref.uid, container_id)
        pidfd = _held(pid, container_id)
        if pidfd >= 0:
            return pidfd
        await asyncio.sleep(_LOOK_SECONDS)


def _held(pid: int, container_id: str) -> int:
    """Return a pidfd of the container's first process; -1 if `pid` is 0, or no longer that process."""
    if not pid:
        return -1
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
    with contextlib.suppress(OSError):
        if container_id in Path(f"/proc/{pid}/cgroup").read_text() and is_first_of_a_namespace(pid):
            return pidfd
    os.close(pidfd)
    return -1


async def _readable(pidfd: int) -> None:
    """Wait until the process has ended."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
