"""How a worker refuses a query that would spoil its run, and how our clients ask again."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from temporalio.client import Interceptor, OutboundInterceptor, QueryWorkflowInput, WorkflowQueryFailedError

AHEAD: Final = "the query met signals that no workflow task has taken yet; ask again"
"""The message of a query that was refused because its replay would have run ahead of the history."""

_PAUSES_SECONDS: Final = (0.0, 0.2, 0.5, 1.0, 2.0)
"""Pauses before each further try. The task that takes the signals is already under way, or waits for a worker."""


class AskAgain(Interceptor):
    """Has a client repeat queries that were refused with AHEAD, a few times, within four seconds."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # the SDK's name
        """Wrap the client's calls."""
        return _AskAgain(next)


class _AskAgain(OutboundInterceptor):
    async def query_workflow(self, input: QueryWorkflowInput) -> Any:  # the SDK's name
        for pause in _PAUSES_SECONDS:
            try:
                return await super().query_workflow(input)
            except WorkflowQueryFailedError as failed:
                if failed.message != AHEAD:
                    raise
            await asyncio.sleep(pause)
        return await super().query_workflow(input)
