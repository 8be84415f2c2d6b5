"""If the server does not answer a step of a fleet's worker, one line is logged, and the failure is no defect."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from activities.fleet_objects import Sealing, object_steps
from activities.fleet_workload import fleet_steps
from syncpod.messages.fleet_objects import SealObjects
from syncpod.messages.node import PodKey
from syncpod.messages.workload import WithdrawPods

BUSY = "consistent query buffer is full, this may be caused by too many queries"


class Refusing:
    """A server that carries out updates, and refuses queries."""

    def __init__(self, why: Exception) -> None:
        self.why = why

    def get_workflow_handle(self, *_: Any) -> Refusing:
        return self

    async def execute_update(self, *_: Any) -> None:
        """Accept the update."""

    async def query(self, *_: Any) -> None:
        raise self.why


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (RPCError(BUSY, RPCStatusCode.RESOURCE_EXHAUSTED, b""), f"the Temporal server fails: {BUSY}"),
        (RPCError("", RPCStatusCode.UNAVAILABLE, b""), "the Temporal server fails: UNAVAILABLE"),
        (WorkflowQueryFailedError("no"), "a workflow of the fleet cannot answer: no"),
    ],
)
async def test_a_refused_query_is_told_in_one_line_without_a_traceback(
    why: Exception, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = cast(Client, Refusing(why))
    withdraw, seal = fleet_steps(client)[2], object_steps(client, cast(Sealing, None))[0]
    for step, asked in (
        (withdraw, WithdrawPods(node="n1", pods=(PodKey(name="web"),))),
        (seal, SealObjects(node="n1")),
    ):
        caplog.clear()
        with pytest.raises(ApplicationError) as failure:
            await step(asked)
        assert (failure.value.message, failure.value.category) == (said, ApplicationErrorCategory.BENIGN)
        assert not failure.value.non_retryable
        (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert line.getMessage().endswith(f"is tried again: {said}") and line.exc_info is None
