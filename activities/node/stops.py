"""StopContainer calls that are under way, and outlive the steps that sent them."""

from __future__ import annotations

import asyncio
import logging

from activities.node.clock import monotonic
from syncpod.cri import CriRuntime
from syncpod.cri.errors import CriError, NotFound

logger = logging.getLogger(__name__)

HUNG_SECONDS = 10.0
"""Seconds that a StopContainer call may take to return after its SIGKILL. After that, another call is sent without
waiting for the first."""


class Stops:
    """Sends StopContainer and keeps each call until it returns, even if the step that sent it has ended.

    A StopContainer that is cancelled within its grace never sends SIGKILL, so no call is ever cancelled. A second call
    with a shorter grace runs concurrently with the first; both return when the shorter grace is over.
    """

    def __init__(self, cri: CriRuntime) -> None:
        self._cri = cri
        self._running: dict[str, list[tuple[float, asyncio.Task[None]]]] = {}

    def stop(self, container_id: str, grace_seconds: int) -> asyncio.Task[None]:
        """Stop a container, with SIGKILL after `grace_seconds` (whole); return a task that is done once it has ended.

        If a call under way will kill the container no later than that, its task is returned and nothing is sent, unless
        that call hangs. The task raises CriError; a missing container is a success. Wait for the task with
        asyncio.wait, which never cancels it.
        """
        deadline = monotonic() + grace_seconds
        calls = self._running.setdefault(container_id, [])
        for known_deadline, call in calls:
            if monotonic() - HUNG_SECONDS <= known_deadline <= deadline:
                return call
        task = asyncio.create_task(self._stop(container_id, grace_seconds), name=f"StopContainer {container_id[:12]}")
        calls.append((deadline, task))
        task.add_done_callback(lambda done: self._ended(container_id, done))
        return task

    async def _stop(self, container_id: str, grace_seconds: int) -> None:
        try:
            await self._cri.stop_container(container_id, timeout_seconds=grace_seconds)
        except NotFound:
            return

    def _ended(self, container_id: str, done: asyncio.Task[None]) -> None:
        left = [(deadline, task) for deadline, task in self._running[container_id] if task is not done]
        if left:
            self._running[container_id] = left
        else:
            del self._running[container_id]
        if not done.cancelled() and isinstance(error := done.exception(), CriError):
            # Nobody may be waiting any more; the next step looks at the container, not at this call.
            logger.debug("stopping container %s: %s", container_id, error)
