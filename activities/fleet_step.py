"""Turns the steps of a fleet's worker into activities.

If the fleet's Temporal server fails, or a workflow there cannot answer a query, that is no defect of the step. The step
is retried, and the worker logs one line.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from temporalio import activity
from temporalio.client import WorkflowQueryFailedError
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

log = logging.getLogger("syncpod.fleet")

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")
Steps = tuple[tuple[str, Callable[[Any], Awaitable[Any]]], ...]
"""Pairs of a step's name and its function."""


def fleet_step(name: str, step: Callable[[_Asked], Awaitable[_Answer]]) -> Callable[[_Asked], Awaitable[_Answer]]:
    """Return a step as an activity of that name, to register with the fleet's worker.

    If the server or a query fails, the activity raises a retryable ApplicationError.
    """

    @functools.wraps(step)
    async def retryable(asked: _Asked) -> _Answer:
        try:
            return await step(asked)
        except RPCError as error:
            why, kind = f"the Temporal server fails: {error.message or error.status.name}", error.status.name
        except WorkflowQueryFailedError as error:
            why, kind = f"a workflow of the fleet cannot answer: {error.message}", type(error).__name__
        log.warning("%s is tried again: %s", name, why)
        raise ApplicationError(why, type=kind, category=ApplicationErrorCategory.BENIGN) from None

    return activity.defn(name=name)(retryable)
