"""Replays a recorded history, and says which step would now differ.

The SDK compares types of commands alone, and says `Activity type of scheduled event 'a' does not match activity type of
activity command 'b'`. Here every step that the replayed run takes is held against the one that was recorded, with its
container, number and victims, so that what differs is named: which history, which event, which step then, which now.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner

from syncpod.temporal.plugin import DATA_CONVERTER, syncpod_plugin
from workflows.pod.workflow import PodWorkflow
from workflows.runner import workflow_runner


class Differs(AssertionError):
    """A history does not replay; the sentence names the step."""


class Recorded(NamedTuple):
    """A step as a history has it."""

    event: int
    step: str


async def replay(name: str, history: WorkflowHistory, workflows: Sequence[type] = (PodWorkflow,)) -> None:
    """Replay a history; raises Differs where the workflow of this tree would have taken another step."""
    started = history.events[0].workflow_execution_started_event_attributes
    watching = Watching(workflow_runner(), started.task_queue.name)
    plugin = syncpod_plugin(workflows=list(workflows), runner=watching)
    failure: Exception | None = None
    try:
        # How long the machine takes over a task is no difference: debug_mode has no limit of two seconds.
        await Replayer(workflows=[], plugins=[plugin], debug_mode=True).replay_workflow(
            WorkflowHistory(started.workflow_id, history.events)
        )
    except (workflow.NondeterminismError, RuntimeError) as error:
        failure = error
    if problem := difference(recorded_steps(history), watching.steps, failure):
        raise Differs(f"history {name}, {problem}") from failure


def difference(then: Sequence[Recorded], now: Sequence[str], failure: Exception | None) -> str:
    """Return what differs between the steps recorded and those taken now; "" where nothing does.

    A history may end before the last step that a run of this tree takes; and a replay that fails ends at once.
    """
    for recorded, taken in zip(then, now, strict=False):
        if recorded.step != taken:
            return f"event {recorded.event}: the step recorded is {recorded.step!r}, the step taken now is {taken!r}"
    if failure is None:
        return ""
    words = _words(failure)
    if len(now) < len(then) and "ActivityTaskScheduled" in words:
        recorded = then[len(now)]
        return f"event {recorded.event}: the step recorded is {recorded.step!r}, no step is taken now ({words})"
    if len(now) > len(then):
        return f"after event {then[-1].event if then else 0}: the step taken now is {now[len(then)]!r} ({words})"
    where = re.search(r"HistoryEvent\(id: (\d+)", words)
    return f"event {where[1]}: {words}" if where else words


def recorded_steps(history: WorkflowHistory) -> list[Recorded]:
    """Return the steps of a history, in their order."""
    return [
        Recorded(event.event_id, _step(scheduled.activity_type.name, scheduled.input.payloads))
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
        for scheduled in [event.activity_task_scheduled_event_attributes]
    ]


class Watching(WorkflowRunner):
    """A runner that notes each step that the run takes which it runs.

    It also tells the run the task queue of its history: a replayer has one of its own, which names no node.
    """

    def __init__(self, runner: WorkflowRunner, task_queue: str) -> None:
        self.steps: list[str] = []
        self._runner = runner
        self._task_queue = task_queue

    def prepare_workflow(self, defn: Any) -> None:
        """As the runner does."""
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """As the runner does, and listen to the instance."""
        self.steps = []
        instance = self._runner.create_instance(replace(det, info=replace(det.info, task_queue=self._task_queue)))
        activate = instance.activate

        def listening(activation: Any) -> Any:
            completion = activate(activation)
            for command in completion.successful.commands:
                if command.HasField("schedule_activity"):
                    scheduled = command.schedule_activity
                    self.steps.append(_step(scheduled.activity_type, scheduled.arguments))
            return completion

        instance.activate = listening  # type: ignore[method-assign, assignment]
        return instance


def _step(name: str, payloads: Sequence[Payload]) -> str:
    """Return which step it is: `start_container web, restart 1`."""
    given: dict[str, Any] = DATA_CONVERTER.payload_converter.from_payload(payloads[0], dict)
    victim = (given.get("target") or {}).get("id", "")
    about = " ".join(part for part in (given.get("container", ""), victim, *given.get("ids", ())) if part)
    numbers = [f"{word} {given[word]}" for word in ("restart", "attempt") if word in given]
    return ", ".join([f"{name} {about}".rstrip(), *numbers])


def _words(failure: Exception) -> str:
    """Return what the SDK says, without what it wraps it in."""
    text = str(failure)
    inner = re.search(r'message: "((?:[^"\\]|\\.)*)"', text)
    return str(json.loads(f'"{inner[1]}"')) if inner else text
