"""A step of a fleet's worker while the fleet's own server, or a workflow there, does not answer it.

That is no defect: the step is tried again, and the worker's log has one line for it.
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
"""Steps by name."""


def fleet_step(name: str, step: Callable[[_Asked], Awaitable[_Answer]]) -> Callable[[_Asked], Awaitable[_Answer]]:
    """Return a step as an activity of that name, to register with the fleet's worker.

    It raises ApplicationError for whatever the server refuses. Its retry policy says when it is tried again.
    """

    @functools.wraps(step)
    async def told(asked: _Asked) -> _Answer:
        try:
            return await step(asked)
        except RPCError as error:
            why, kind = f"the Temporal server fails: {error.message or error.status.name}", error.status.name
        except WorkflowQueryFailedError as error:
            why, kind = f"a workflow of the fleet cannot answer: {error.message}", type(error).__name__
        log.warning("%s is tried again: %s", name, why)
        raise ApplicationError(why, type=kind, category=ApplicationErrorCategory.BENIGN) from None

    return activity.defn(name=name)(told)
