"""Waiting a moment for the end of an init container that was just started, since most end at once.

A runtime lists an exit 30 to 70 ms after the process has ended. The process's pidfd shows the end at once, so the next
container can be created in that time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import ExitStack

from activities.node.clock import monotonic
from activities.step_attempt import Interrupted, StepAttempt
from syncpod.cri.errors import CriError
from syncpod.kernel.process_end import listening
from syncpod.messages import ObservedPod
from syncpod.messages.steps import StartContainer
from syncpod.node.announcements import Announced
from syncpod.node.runtime_answers import Made

LINGER_SECONDS = 0.2
"""How long the start of an init container waits for its exit, including the runtime's delay."""
_REPORT_SECONDS = 1.0
"""How long the start waits until the runtime lists the exit of an ended process: a busy runtime may take that long."""
_LOOK_SECONDS = 0.005
"""Seconds between two status requests to a runtime that does not announce exits, if the process has ended or cannot be
watched."""
_SELDOM_SECONDS = 0.05
"""Seconds between two status requests to any runtime while the process runs, and to a runtime that announces exits.
Such a runtime may drop an announcement (containerd 2.x, if its reader is too slow)."""


async def read_once_started(
    attempt: StepAttempt, request: StartContainer, container_id: str, announced: Announced, *, is_to_end: bool
) -> ObservedPod:
    """Read the pod after a successful start; if the container is to end, wait a moment for its end first."""
    if is_to_end:
        return await _read_at_its_end(attempt, request, container_id, announced)
    attempt.mark_finishing()
    return await attempt.read(Made(request.sandbox_id, container_id))


async def _read_at_its_end(
    attempt: StepAttempt, request: StartContainer, container_id: str, announced: Announced
) -> ObservedPod:
    """Read the pod once the container has ended, or after a moment.

    A runtime that announces exits announces each as soon as it lists the exit. The pidfd shows the end of the process
    earlier, but not the exit code. In the first try of a container's first instance, success is assumed until the
    runtime lists the exit, and the next container may be created. A restarted container has most likely failed again,
    so nothing is created ahead.
    """
    deadline, reader, home = monotonic() + LINGER_SECONDS, attempt.node.reader, request.sandbox_id
    is_first = not request.restart and attempt.number == 1
    with contextlib.suppress(Interrupted, CriError), ExitStack() as watching:
        process = await _Process.of(attempt, container_id, watching, attempt.mark_waiting if is_first else None)
        while monotonic() < process.awaited_until(deadline) and not attempt.interrupted:
            if announced.anything or not process.runs:
                await attempt.pause(_SELDOM_SECONDS if announced.anything else _LOOK_SECONDS, until=announced.end)
            else:
                await attempt.pause(_SELDOM_SECONDS, until=process.end)
            if await reader.has_exited(container_id, sandbox_id=home, succeeded=attempt.mark_finishing):
                break
            if announced.end.is_set():  # announced before it was listed: from now on the runtime is polled
                announced.end.clear()
                announced.anything = False
    return await attempt.read()


class _Process:
    """The first process of a container, if the node can watch it."""

    def __init__(self) -> None:
        self.end = asyncio.Event()
        self._is_watched = False
        self._ended_at = 0.0

    @classmethod
    async def of(
        cls, attempt: StepAttempt, container_id: str, watching: ExitStack, ended: Callable[[], None] | None
    ) -> _Process:
        """Watch the process while the stack is open, and call `ended` at its end. Raises CriError.

        Nothing is watched if the runtime does not report the pid, or has its own pid namespace.
        """
        this = cls()
        if not attempt.node.context.shares_pids:
            return this
        pid = await attempt.node.reader.pid_of(container_id)
        if pid <= 0:
            return this

        def process_ended() -> None:
            this._ended_at = monotonic()
            this.end.set()
            if ended is not None:
                ended()

        with contextlib.suppress(OSError):  # such as a kernel without pidfds
            watching.enter_context(listening(pid, process_ended))
            this._is_watched = True
        return this

    def awaited_until(self, deadline: float) -> float:
        """Return the monotonic time until which to await the exit: the deadline, or later if the process has ended."""
        return max(deadline, self._ended_at + _REPORT_SECONDS) if self.end.is_set() else deadline

    @property
    def runs(self) -> bool:
        """Whether the process is watched and has not ended."""
        return self._is_watched and not self.end.is_set()
