"""A history that cannot be replayed is given up, and its pod continues in a new run.

In the history, a pod's workflow handled a signal with the time of the previous task (docs/engineering/internals.md has
the cause). The first run has that history, as if a current worker had written it; the node's agent replaces it by the
second run.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution, WorkflowType
from temporalio.api.enums.v1 import CommandType, EventType, WorkflowExecutionStatus, WorkflowIdConflictPolicy
from temporalio.api.history.v1 import History, HistoryEvent
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice import v1
from temporalio.client import WorkflowHistory
from temporalio.worker import Worker

from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.stuck_workflows import StuckWorkflows
from syncpod.lifecycle.version import build_id
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.pod import Pod
from syncpod.temporal.plugin import DATA_CONVERTER, syncpod_plugin
from syncpod.temporal.workflow_watch import Published
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory
from tests.replay.scripted_server import ScriptedServer
from tests.runtimes.temporal_client import connect
from workflows.pod.workflow import PodWorkflow
from workflows.runner import workflow_runner

RECORDED = Path(__file__).parent / "stuck" / "two_times.json"
WORKFLOW, QUEUE, NEXT_RUN = "pod/default/chg-deadline-s1", "node/s1", "22222222-2222-3333-4444-555555555555"
BUILD_ID = build_id("syncpod-test", "0" * 12)


def recorded() -> tuple[str, list[HistoryEvent]]:
    """The run and its events, up to the newest start of the task that fails."""
    events = list(WorkflowHistory.from_json(WORKFLOW, RECORDED.read_text()).events)
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            completed = event.workflow_task_completed_event_attributes
            completed.binary_checksum = completed.worker_version.build_id = BUILD_ID
    return events[0].workflow_execution_started_event_attributes.original_execution_run_id, events


def task(run: str, events: list[HistoryEvent]) -> v1.PollWorkflowTaskQueueResponse:
    """The workflow task that begins with the last of these events."""
    completed = [each for each in events if each.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    polled = v1.PollWorkflowTaskQueueResponse(
        task_token=b"token",
        workflow_execution=WorkflowExecution(workflow_id=WORKFLOW, run_id=run),
        workflow_type=WorkflowType(name="PodWorkflow"),
        workflow_execution_task_queue=TaskQueue(name=QUEUE),
        previous_started_event_id=completed[-1].event_id - 1 if completed else 0,
        started_event_id=events[-1].event_id,
        attempt=1,
        history=History(events=events),
        scheduled_time=events[-1].event_time,
        started_time=events[-1].event_time,
    )
    return polled


def described(run: str, attempt: int) -> v1.DescribeWorkflowExecutionResponse:
    """The server's description of the open run."""
    response = v1.DescribeWorkflowExecutionResponse()
    info = response.workflow_execution_info
    info.execution.workflow_id, info.execution.run_id = WORKFLOW, run
    info.type.name = "PodWorkflow"
    info.status = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
    response.execution_config.task_queue.name = QUEUE
    response.pending_workflow_task.attempt = attempt
    return response


def first_task(start: Any, like: list[HistoryEvent]) -> v1.PollWorkflowTaskQueueResponse:
    """The first task of a run that was just started."""
    events = []
    for event in like[:3]:
        copied = HistoryEvent()
        copied.CopyFrom(event)
        events.append(copied)
    attributes = events[0].workflow_execution_started_event_attributes
    attributes.input.CopyFrom(start.input)
    attributes.original_execution_run_id = attributes.first_execution_run_id = NEXT_RUN
    return task(NEXT_RUN, events)


class Watch:
    """The agent's check of its workflows' tasks."""

    def __init__(self, stuck: StuckWorkflows) -> None:
        self.loop = asyncio.get_running_loop()
        self.stuck = stuck
        self.published_by: list[str] = []

    def published(self, _workflow_id: str, run_id: str, _published: Published | None) -> None:
        self.published_by.append(run_id)

    def pods(self) -> Sequence[Published]:
        return ()

    def has_ended(self, _workflow_id: str, _run_id: str) -> bool:
        return False

    def task_failed(self, workflow_id: str, run_id: str, why: str) -> None:
        self.loop.call_soon_threadsafe(self.stuck.failed, workflow_id, run_id, why)


async def test_a_pod_recovers_from_a_history_that_cannot_be_replayed(tmp_path: Path) -> None:
    run, events = await asyncio.to_thread(recorded)
    (start,) = await DATA_CONVERTER.decode(
        events[0].workflow_execution_started_event_attributes.input.payloads, [dict[str, Any]]
    )
    pod = Pod.model_validate(start["pod"])
    context = NodeContext(
        name="s1", state_dir=tmp_path, memory_dir=tmp_path / "memory", log_dir=tmp_path / "log", cluster="c/n"
    )
    pod_directory(context, pod.metadata.uid).mkdir(parents=True)
    write_pod_record(context, PodRecord(pod=pod, incarnation="0123456789abcdef", admitted=True))

    server = ScriptedServer(*[task(run, events)] * 3)
    started: list[Any] = []

    def start_workflow(request: Any) -> v1.StartWorkflowExecutionResponse:
        started.append(request)
        server.tasks.append(first_task(request, events))
        return v1.StartWorkflowExecutionResponse(run_id=NEXT_RUN, started=True)

    server.handlers["DescribeWorkflowExecution"] = lambda _: described(run, len(server.answers) + 1)
    server.handlers["GetWorkflowExecutionHistory"] = lambda _: v1.GetWorkflowExecutionHistoryResponse(
        history=History(events=events)
    )
    server.handlers["StartWorkflowExecution"] = start_workflow
    async with server.serving() as address:
        client = await connect(address, data_converter=DATA_CONVERTER)
        resumed: list[str] = []
        stuck = StuckWorkflows(
            client,
            context,
            task_queue=QUEUE,
            published=PublishedPods(context),
            has_attributes=lambda: True,
            resume=lambda ref: resumed.append(ref.uid),
        )
        watch = Watch(stuck)
        plugin = syncpod_plugin(workflows=[PodWorkflow], runner=workflow_runner(), watch=watch)
        async with Worker(client, task_queue=QUEUE, build_id=BUILD_ID, plugins=[plugin]):
            async with asyncio.timeout(30):
                while not started:  # noqa: ASYNC110  # the scripted server tells nobody
                    await asyncio.sleep(0.01)
            await server.until_answered()
            server.over()
        await stuck.close()
    assert all("ondeterminis" in answer.failure.message for answer in server.answers[:3])
    (request,) = started
    assert request.workflow_id == WORKFLOW
    assert (
        request.workflow_id_conflict_policy == WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING
    )
    assert resumed == [pod.metadata.uid] and watch.published_by == [NEXT_RUN]
    commands = {each.command_type: each for each in server.answers[3].commands}
    step = commands[CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK].schedule_activity_task_command_attributes
    # The pod was being deleted. The new run knows of nothing to stop, so that kill only lists what there is.
    assert step.activity_type.name == "kill_pod"
