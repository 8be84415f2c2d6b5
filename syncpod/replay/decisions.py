"""The decisions of a run: those in its history, and those that its replay takes.

A decision is a step, a wait, a signal to another workflow, or the end of the run. A step or wait that is begun and
cancelled within one workflow task does not count: no command for it is sent to Temporal. Each decision has a
description in words: `start container web, restart 3`, `wait 10 s`, `continue as new`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner

from syncpod.replay.comparison import Decided

InputOf = Callable[[Sequence[Payload]], Mapping[str, Any]]
"""Returns the JSON of a step's input."""

_ENDS: Final = {
    "workflow_execution_completed_event_attributes": "complete_workflow_execution",
    "workflow_execution_failed_event_attributes": "fail_workflow_execution",
    "workflow_execution_canceled_event_attributes": "cancel_workflow_execution",
    "workflow_execution_continued_as_new_event_attributes": "continue_as_new_workflow_execution",
}
_OTHERS: Final = {
    "timer_canceled_event_attributes": "cancel_timer",
    "activity_task_cancel_requested_event_attributes": "request_cancel_activity",
    "upsert_workflow_search_attributes_event_attributes": "upsert_workflow_search_attributes",
    "workflow_properties_modified_event_attributes": "modify_workflow_properties",
}
_END_WORDS: Final[Mapping[str, str]] = {
    "complete_workflow_execution": "end the workflow",
    "fail_workflow_execution": "fail the workflow",
    "cancel_workflow_execution": "end the workflow as cancelled",
    "continue_as_new_workflow_execution": "continue as new",
}
"""Words for the last decision of a run, by Temporal's name of its command."""
_OTHER_WORDS: Final[Mapping[str, str]] = {
    "cancel_timer": "end a wait early",
    "request_cancel_activity": "cancel a step",
    "upsert_workflow_search_attributes": "change the search attributes",
    "modify_workflow_properties": "change the memo",
}
"""Words for commands that are not decisions, by Temporal's name of the command."""


def completed_tasks(events: Sequence[HistoryEvent]) -> list[int]:
    """Return the numbers of the events that completed a workflow task, in order."""
    return [each.event_id for each in events if each.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]


def recorded(events: Sequence[HistoryEvent], input_of: InputOf) -> list[Decided]:
    """Return the decisions that a history has, in order."""
    found = []
    for event in events:
        kind = event.WhichOneof("attributes")
        said: Any = getattr(event, kind) if kind else None
        if kind == "activity_task_scheduled_event_attributes":
            words = _step_words(said.activity_type.name, input_of(said.input.payloads))
        elif kind == "timer_started_event_attributes":
            words = _wait_words(said.start_to_fire_timeout.ToTimedelta())
        elif kind == "signal_external_workflow_execution_initiated_event_attributes":
            words = _signal_words(said.signal_name, said.workflow_execution.workflow_id)
        elif kind in _ENDS:
            words = _END_WORDS[_ENDS[kind]]
        else:
            continue
        found.append(Decided(said.workflow_task_completed_event_id, words, event.event_id))
    return found


def others(events: Sequence[HistoryEvent]) -> list[Decided]:
    """Return the commands in a history that do not count as decisions, in order."""
    found = []
    for event in events:
        kind = event.WhichOneof("attributes") or ""
        if kind in _OTHERS:
            task = getattr(event, kind).workflow_task_completed_event_id
            found.append(Decided(task, _OTHER_WORDS[_OTHERS[kind]], event.event_id))
    return found


class Watching(WorkflowRunner):
    """A workflow runner that records the decisions of the run.

    It also gives the run the task queue in its history, since the replayer's own queue names no node.
    """

    def __init__(self, runner: WorkflowRunner, task_queue: str, tasks: Sequence[int], input_of: InputOf) -> None:
        """`tasks` are the numbers of the events that completed the history's workflow tasks."""
        self._runner, self._task_queue, self._tasks, self._input_of = runner, task_queue, tasks, input_of
        self._taken: dict[tuple[str, int], Decided] = {}
        self.failed: Decided | None = None
        """The failure of a workflow task in the workflow's own code, which ends the replay; None = none failed."""
        self.others: list[Decided] = []
        """Commands that do not count as decisions."""

    @property
    def decisions(self) -> list[Decided]:
        """The run's decisions so far, in order."""
        return list(self._taken.values())

    def prepare_workflow(self, defn: Any) -> None:
        """Delegate to the runner."""
        self._runner.prepare_workflow(defn)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        """Delegate to the runner."""
        self._runner.set_worker_level_failure_exception_types(types)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Return the runner's instance, wrapped to record the commands of each activation."""
        self._taken, self.others = {}, []
        instance = self._runner.create_instance(replace(det, info=replace(det.info, task_queue=self._task_queue)))
        activate = instance.activate

        def listening(activation: WorkflowActivation) -> WorkflowActivationCompletion:
            completion = activate(activation)
            self._note(activation.history_length, completion)
            return completion

        instance.activate = listening  # type: ignore[method-assign, assignment]
        return instance

    def _note(self, history_length: int, completion: WorkflowActivationCompletion) -> None:
        """Record the decisions of an activation, which followed `history_length` events."""
        following = bisect_right(self._tasks, history_length)
        task = self._tasks[following] if following < len(self._tasks) else 0
        if completion.HasField("failed"):
            failure = completion.failed.failure
            why = f"{failure.application_failure_info.type}: {failure.message}".removeprefix(": ")
            self.failed = Decided(task or history_length, f"fail: {why}")
        for command in completion.successful.commands:
            kind = command.WhichOneof("variant") or ""
            said: Any = getattr(command, kind)
            if kind == "schedule_activity":
                words = _step_words(said.activity_type, self._input_of(said.arguments))
                self._taken["step", said.seq] = Decided(task, words)
            elif kind == "start_timer":
                self._taken["wait", said.seq] = Decided(task, _wait_words(said.start_to_fire_timeout.ToTimedelta()))
            elif kind == "signal_external_workflow_execution":
                words = _signal_words(said.signal_name, said.workflow_execution.workflow_id)
                self._taken["signal", said.seq] = Decided(task, words)
            elif kind in _END_WORDS:
                self._taken["end", 0] = Decided(task, _END_WORDS[kind])
            elif kind in _OTHER_WORDS and not self._forget(kind, said, task):
                self.others.append(Decided(task, _OTHER_WORDS[kind]))

    def _forget(self, kind: str, said: Any, task: int) -> bool:
        """Remove the decision that this command cancels, if both are of one task. Return whether one was removed."""
        begun = {"cancel_timer": "wait", "request_cancel_activity": "step"}.get(kind)
        if begun is None or (taken := self._taken.get((begun, said.seq))) is None or taken.task != task:
            return False
        del self._taken[begun, said.seq]
        return True


def _step_words(name: str, given: Mapping[str, Any]) -> str:
    """Return the description of a step, from its activity's name and the JSON of its input.

    A pod's step is described by its container, number and victims; a node's step, by its pods; a fleet's, by its pods
    and its node. Nothing else of the input is shown, so no value of a manifest appears.
    """
    target = given.get("target") or {}
    if "ref" in given:
        about = [given.get("container", ""), target.get("id", ""), *given.get("ids", ())]
    else:
        about = [_pod_in(each) for each in given.get("pods") or (given,)]
    named = " ".join([name.replace("_", " "), *(part for part in about if part)])
    return ", ".join([named, *(f"{word} {given[word]}" for word in ("restart", "attempt", "node") if word in given)])


def _pod_in(given: Mapping[str, Any]) -> str:
    """Return the name of the pod in the input of a node's or a fleet's step."""
    metadata: Mapping[str, Any] = (given.get("pod") or given).get("metadata") or {}
    return str(given.get("name") or metadata.get("name", ""))


def _wait_words(length: timedelta) -> str:
    """Return how long a wait is."""
    return f"wait {length.total_seconds():.6g} s"


def _signal_words(name: str, workflow_id: str) -> str:
    """Return the description of a signal to another workflow."""
    return f"signal {name} to {workflow_id}"
