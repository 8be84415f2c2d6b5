"""The SDK's handling of a query whose history has events after the last completed workflow task.

See docs/engineering/internals.md.

A server reads the history for a query when it sends the query. That history may have events after the last completed
task, for which there is no task yet. A scripted server sends exactly that: a query, and then the workflow task for the
same history.

Holds: No query spoils a run.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import Payloads, WorkflowExecution, WorkflowType
from temporalio.api.enums.v1 import CommandType, EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueResponse
from temporalio.client import OutboundInterceptor, QueryWorkflowInput, WorkflowQueryFailedError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkflowRunner

from syncpod.temporal.queries import AHEAD, AskAgain
from syncpod.temporal.workflow_watch import Published, WatchedRunner
from tests.replay.scripted_server import ScriptedServer
from tests.runtimes.temporal_client import connect

RUN = "11111111-2222-3333-4444-555555555555"
AT_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of the last completed task."""
LATER = AT_FIRST + timedelta(seconds=60)
"""The time of the task that handles the signal."""


@dataclass(frozen=True)
class Handled:
    """One call of the signal's handler."""

    instance: int
    at: datetime
    replaying: bool


HANDLED: list[Handled] = []
TOKENS = count(1)


@workflow.defn(name="Waits")
class Waits:
    """Waits for one signal, and then sets a timer."""

    def __init__(self) -> None:
        self.signalled = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self.signalled)
        await workflow.sleep(timedelta(hours=1))

    @workflow.signal
    def go(self) -> None:
        HANDLED.append(Handled(id(self), workflow.now(), workflow.unsafe.is_replaying()))
        self.signalled = True

    @workflow.query
    def has_been_signalled(self) -> bool:
        return self.signalled


def history() -> list[HistoryEvent]:
    """The run's events up to the task that handles the signal."""
    kinds = (
        ("WORKFLOW_EXECUTION_STARTED", AT_FIRST),
        ("WORKFLOW_TASK_SCHEDULED", AT_FIRST),
        ("WORKFLOW_TASK_STARTED", AT_FIRST),
        ("WORKFLOW_TASK_COMPLETED", AT_FIRST),
        ("WORKFLOW_EXECUTION_SIGNALED", LATER),
        ("WORKFLOW_TASK_SCHEDULED", LATER),
        ("WORKFLOW_TASK_STARTED", LATER),
    )
    events = []
    for number, (kind, at) in enumerate(kinds, start=1):
        event = HistoryEvent(event_id=number, event_type=EventType.Value(f"EVENT_TYPE_{kind}"))
        event.event_time.FromDatetime(at)
        events.append(event)
    started = events[0].workflow_execution_started_event_attributes
    started.workflow_type.name = "Waits"
    started.task_queue.name = "queue"
    started.original_execution_run_id = started.first_execution_run_id = RUN
    started.attempt = 1
    events[1].workflow_task_scheduled_event_attributes.SetInParent()
    events[5].workflow_task_scheduled_event_attributes.SetInParent()
    events[2].workflow_task_started_event_attributes.scheduled_event_id = 2
    events[3].workflow_task_completed_event_attributes.scheduled_event_id = 2
    events[3].workflow_task_completed_event_attributes.started_event_id = 3
    events[4].workflow_execution_signaled_event_attributes.signal_name = "go"
    events[6].workflow_task_started_event_attributes.scheduled_event_id = 6
    return events


def task(events: list[HistoryEvent], **more: Any) -> PollWorkflowTaskQueueResponse:
    """The answer to a poll."""
    polled = PollWorkflowTaskQueueResponse(
        task_token=str(next(TOKENS)).encode(),
        workflow_execution=WorkflowExecution(workflow_id="waits", run_id=RUN),
        workflow_type=WorkflowType(name="Waits"),
        previous_started_event_id=3,
        workflow_execution_task_queue=TaskQueue(name="queue"),
        attempt=1,
        **more,
    )
    polled.scheduled_time.FromDatetime(LATER)
    polled.started_time.FromDatetime(LATER)
    polled.history.events.extend(events)
    return polled


class Ignored:
    """A watch of workflow tasks that does nothing. It knows the end of the run for which it was asked."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self._asked: set[str] = set()

    def pods(self) -> Sequence[Published]:
        return ()

    def has_ended(self, _workflow_id: str, run_id: str) -> bool:
        is_known = run_id in self._asked
        self._asked.add(run_id)
        return is_known

    def published(self, _workflow_id: str, _run_id: str, _published: Published | None) -> None:
        pass

    def task_failed(self, _workflow_id: str, _run_id: str, why: str) -> None:
        self.failures.append(why)


@asynccontextmanager
async def worker_of(server: ScriptedServer, runner: WorkflowRunner) -> AsyncIterator[None]:
    async with server.serving() as address:
        client = await connect(address)
        async with Worker(client, task_queue="queue", workflows=[Waits], workflow_runner=runner):
            yield
            server.over()


def a_query_ahead_of_its_tasks() -> PollWorkflowTaskQueueResponse:
    """A query whose history has a signal that no task has handled."""
    query = WorkflowQuery(query_type="has_been_signalled", query_args=Payloads(payloads=[]))
    return task(history()[:6], query=query)


def timers(answer: Any) -> int:
    return len([each for each in answer.commands if each.command_type == CommandType.COMMAND_TYPE_START_TIMER])


@pytest.mark.parametrize("is_sticky", [False, True], ids=["the whole history", "what is new since the last task"])
async def test_the_sdk_reuses_an_instance_that_a_query_ran_ahead(is_sticky: bool) -> None:
    """What is wrong in temporalio 1.35.0: when this fails, the guard is no longer needed."""
    HANDLED.clear()
    following = task(history()[4 if is_sticky else 0 :], started_event_id=7)
    server = ScriptedServer(a_query_ahead_of_its_tasks(), following, sticky=is_sticky)
    async with worker_of(server, UnsandboxedWorkflowRunner()):
        await server.until_answered()
    (handled,) = HANDLED
    assert handled.at == AT_FIRST and not handled.replaying, "handled once, a minute before it was sent, as new"
    assert server.answers[0].query_result.payloads[0].data == b"true"
    assert timers(server.answers[1]) == 1, "and its command is the next task's"


async def test_a_guarded_instance_does_not_run_ahead_of_its_history() -> None:
    HANDLED.clear()
    ignored = Ignored()
    runner = WatchedRunner(UnsandboxedWorkflowRunner(), ignored)
    following = task(history(), started_event_id=7)
    server = ScriptedServer(a_query_ahead_of_its_tasks(), following)
    async with worker_of(server, runner):
        await server.until_answered()
    (handled,) = HANDLED
    assert handled.at == LATER, "at the time of its own task, as in each replay"
    assert AHEAD in server.answers[0].error_message
    assert timers(server.answers[1]) == 1
    assert not ignored.failures, "no workflow task has failed"


def a_query_of_a_run_that_was_ended() -> PollWorkflowTaskQueueResponse:
    """A query of a run that a reset ended, with a signal in its history that no task will ever handle."""
    ended = HistoryEvent(event_id=6, event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED)
    ended.event_time.FromDatetime(LATER)
    ended.workflow_execution_terminated_event_attributes.SetInParent()
    query = WorkflowQuery(query_type="has_been_signalled", query_args=Payloads(payloads=[]))
    return task([*history()[:5], ended], query=query)


async def test_a_run_that_ended_with_untaken_signals_is_answered_once_it_is_known_to_have_ended() -> None:
    """No task takes the signals: without them, it is as its last task left it."""
    HANDLED.clear()
    ignored = Ignored()
    server = ScriptedServer(*(a_query_of_a_run_that_was_ended() for _ in range(3)))
    async with worker_of(server, WatchedRunner(UnsandboxedWorkflowRunner(), ignored)):
        await server.until_answered()
    assert AHEAD in server.answers[0].error_message, "it may still be open: the server is asked"
    for answer in server.answers[1:]:
        assert answer.query_result.payloads[0].data == b"false"
    assert not HANDLED and not ignored.failures


class Refusing(OutboundInterceptor):
    """A server whose worker refuses this many queries before it answers one."""

    def __init__(self, refusals: int, why: str = AHEAD) -> None:
        self.left, self.why = refusals, why

    async def query_workflow(self, input: QueryWorkflowInput) -> str:  # the SDK's name
        if self.left:
            self.left -= 1
            raise WorkflowQueryFailedError(self.why)
        return "answered"


async def test_a_client_repeats_a_query_that_asks_to_be_repeated() -> None:
    asked = cast(QueryWorkflowInput, None)
    assert await AskAgain().intercept_client(Refusing(2)).query_workflow(asked) == "answered"
    with pytest.raises(WorkflowQueryFailedError, match="no such query"):
        await AskAgain().intercept_client(Refusing(1, "no such query")).query_workflow(asked)
