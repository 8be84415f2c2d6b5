"""Delivers a cancellation to a running step within a second, although steps rarely heartbeat.

The server reports a cancellation in its answer to a heartbeat. The workflow that requests the cancellation runs in the
same worker as the step. So from the request on, the worker heartbeats each second for the step, with the details of the
step's last heartbeat. A step that another worker has begun receives the cancellation with its own next heartbeat.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any, Final

from temporalio import activity
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from syncpod.messages.worker_functions import STEP_CANCELLED

BEAT_SECONDS: Final = 1.0
_FIRST_BEAT_SECONDS: Final = 0.05
"""The delay of the first such heartbeat, after which the server usually has the workflow's request."""


class StepCancellation(Interceptor):
    """Heartbeats for the steps of workflows that have cancelled a step. Each worker has one."""

    def __init__(self) -> None:
        self._running: dict[str, list[_Step]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Keep track of each step while it runs."""
        return _KnowsSteps(next, self)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Give workflows the function that they call when they cancel a step."""
        input.unsafe_extern_functions[STEP_CANCELLED] = self._cancelled
        return None

    def began(self, workflow_id: str, step: _Step) -> None:
        """Note that a step runs. Called in the worker's event loop, as is `ended`."""
        self._loop = asyncio.get_running_loop()
        self._running.setdefault(workflow_id, []).append(step)

    def ended(self, workflow_id: str, step: _Step) -> None:
        """Note that a step has ended."""
        step.stop()
        running = self._running[workflow_id]
        running.remove(step)
        if not running:
            del self._running[workflow_id]

    def _cancelled(self, workflow_id: str) -> None:
        """Heartbeat each second for all steps of a workflow. Called from threads of workflow tasks."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hasten, workflow_id)

    def _hasten(self, workflow_id: str) -> None:
        for step in self._running.get(workflow_id, ()):
            step.hasten()


class _Step:
    """One running step, and the heartbeats that the worker makes for it."""

    def __init__(self, outbound: _Remembers) -> None:
        self._outbound = outbound
        self._context = contextvars.copy_context()
        self._beating: asyncio.Task[None] | None = None

    def hasten(self) -> None:
        """Heartbeat each second from now on."""
        if self._beating is None:
            self._beating = asyncio.get_running_loop().create_task(self._beat(), context=self._context)

    def stop(self) -> None:
        """Stop heartbeating."""
        if self._beating is not None:
            self._beating.cancel()

    async def _beat(self) -> None:
        pause = _FIRST_BEAT_SECONDS
        while not activity.is_cancelled():
            await asyncio.sleep(pause)
            self._outbound.repeat()
            pause = BEAT_SECONDS


class _KnowsSteps(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, cancellation: StepCancellation) -> None:
        super().__init__(next)
        self._cancellation = cancellation

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self._outbound = _Remembers(outbound)
        super().init(self._outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        workflow_id, step = activity.info().workflow_id or "", _Step(self._outbound)
        self._cancellation.began(workflow_id, step)
        try:
            return await super().execute_activity(input)
        finally:
            self._cancellation.ended(workflow_id, step)


class _Remembers(ActivityOutboundInterceptor):
    """Keeps the details of a step's last heartbeat."""

    def __init__(self, next: ActivityOutboundInterceptor) -> None:
        super().__init__(next)
        self._details: tuple[Any, ...] = ()

    def heartbeat(self, *details: Any) -> None:
        self._details = details
        super().heartbeat(*details)

    def repeat(self) -> None:
        """Heartbeat again with the same details."""
        super().heartbeat(*self._details)
