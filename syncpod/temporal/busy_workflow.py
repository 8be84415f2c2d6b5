"""How a Temporal server refuses to ask a workflow that has too much to do, although the server itself has not."""

from __future__ import annotations

from typing import Final

from temporalio.service import RPCError, RPCStatusCode

_BUSY: Final = ("Workflow is busy", "query buffer is full", "http2 error")
"""Parts of messages, with RESOURCE_EXHAUSTED, if only this one workflow has too much to do; the last one is of a
connection that the server has ended, because too many queries were given up on it."""


def is_busy_workflow(error: RPCError) -> bool:
    """Say whether only the workflow that was asked has too much to do, so that it is worth asking again."""
    return error.status == RPCStatusCode.RESOURCE_EXHAUSTED and any(words in error.message for words in _BUSY)
