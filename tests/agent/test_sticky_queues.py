"""Tasks in a dead worker's sticky queue are returned, even if the server is slow."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.takeover import sticky_queues
from syncpod.agent.takeover.sticky_queues import StickyQueues
from tests.agent.waiting import until

LATE = RPCError("Timeout expired", RPCStatusCode.CANCELLED, b"")


class Server:
    """A server with a dead worker's queue, and scripted results of polls; after those, the queue is empty."""

    def __init__(self, *polls: bytes | RPCError) -> None:
        self.polls = list(polls)
        self.handed_back: list[bytes] = []

    async def get_workflow_execution_history_reverse(self, *_: Any, **__: Any) -> Any:
        queue = SimpleNamespace(name="dead", kind=TaskQueueKind.TASK_QUEUE_KIND_STICKY)
        event = SimpleNamespace(
            HasField=lambda _: True,
            workflow_task_scheduled_event_attributes=SimpleNamespace(task_queue=queue),
            workflow_task_completed_event_attributes=SimpleNamespace(identity="n1/machine/7"),
        )
        return SimpleNamespace(history=SimpleNamespace(events=[event]))

    async def poll_workflow_task_queue(self, *_: Any, **__: Any) -> Any:
        await asyncio.sleep(0)
        polled = self.polls.pop(0) if self.polls else b""
        if isinstance(polled, RPCError):
            raise polled
        return SimpleNamespace(task_token=polled)

    async def respond_workflow_task_failed(self, request: Any, **_: Any) -> None:
        self.handed_back.append(request.task_token)


async def emptied(server: Server) -> None:
    """Empty the queue, as the next worker does."""
    client: Any = SimpleNamespace(workflow_service=server, namespace="default")
    queues = StickyQueues(client, "node/n1", "n1/machine/8")
    await queues.empty_that_of(WorkflowExecution(workflow_id="pod/default/web"))
    await until(lambda: all(task.done() for task in queues._emptying.values()))


async def test_a_poll_that_the_server_did_not_answer_in_time_is_tried_again() -> None:
    server = Server(*[LATE] * 2 * sticky_queues._POLLERS, b"one", LATE, b"two")
    await emptied(server)
    assert sorted(server.handed_back) == [b"one", b"two"]


async def test_a_server_that_never_answers_is_left_to_its_own_timeout(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, sticky_queues.__name__):
        await emptied(Server(*[LATE] * 1000))
    (said,) = (record for record in caplog.records if record.name == sticky_queues.__name__)
    assert said.message == "workflow tasks of the last worker wait for their timeout: Timeout expired"
