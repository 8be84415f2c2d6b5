"""Queries that fail for a moment: which refusals are worth a retry, and a client interceptor that retries.

A worker refuses a query that would spoil its run (`AHEAD`). A server refuses a query of a workflow that is too busy.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from temporalio.client import Interceptor, OutboundInterceptor, QueryWorkflowInput, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

AHEAD: Final = "the query met signals that no workflow task has taken yet; ask again"
"""The message of a query that was refused because its replay would have run ahead of the history."""

_PAUSES_SECONDS: Final = (0.0, 0.2, 0.5, 1.0, 2.0)
"""The pauses before each retry. The task that takes the signals is already under way, or waits for a worker."""

_BUSY: Final = ("Workflow is busy", "query buffer is full", "http2 error")
"""Parts of the messages of RESOURCE_EXHAUSTED errors about a single workflow. The server sends the last one after it
has closed a connection on which too many queries were cancelled."""


class AskAgain(Interceptor):
    """Retries a client's queries that were refused with AHEAD, a few times within four seconds."""

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


def is_busy_workflow(error: RPCError) -> bool:
    """Say whether only the queried workflow is too busy, and not the server, so that a retry is worthwhile."""
    return error.status == RPCStatusCode.RESOURCE_EXHAUSTED and any(words in error.message for words in _BUSY)
