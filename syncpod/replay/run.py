"""Replays one run as its node's worker would: verifies and decrypts payloads, with its interceptors and runner."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowHistory
from temporalio.converter import WorkflowSerializationContext
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from syncpod.lifecycle.version import decisions_of, too_old
from syncpod.messages.encryption import Undecipherable, is_encrypted
from syncpod.messages.signature import SIGNATURE, Keys
from syncpod.replay.comparison import Decided, Difference, difference
from syncpod.replay.decisions import Watching, completed_tasks, others, recorded
from syncpod.replay.history import NoHistory, checked
from syncpod.temporal.encryption import decrypted
from syncpod.temporal.plugin import DATA_CONVERTER, syncpod_plugin, verifying_converter
from syncpod.temporal.sdk_runtimes import quiet_runtime
from syncpod.temporal.signing import REFUSAL, UNREADABLE
from workflows.fleet.node import FleetNodeWorkflow
from workflows.fleet.object import FleetObjectWorkflow
from workflows.fleet.remote_command import RemoteCommandWorkflow
from workflows.fleet.workload import WorkloadWorkflow
from workflows.node.workflow import NodeWorkflow
from workflows.pod.workflow import PodWorkflow
from workflows.runner import workflow_runner

WORKFLOWS: Final = (
    PodWorkflow,
    NodeWorkflow,
    FleetNodeWorkflow,
    FleetObjectWorkflow,
    WorkloadWorkflow,
    RemoteCommandWorkflow,
)
"""The workflows of a node's worker and of a fleet's."""
_EVENT: Final = re.compile(r"HistoryEvent\(id: (\d+)")
_INNER: Final = re.compile(r'message: "((?:[^"\\]|\\.)*)"')
_SENTENCE: Final = re.compile(r"\[TMPRL\d+\] [^\"]+")


@dataclass(frozen=True)
class Replayed:
    """A replayed run."""

    workflow_id: str
    run_id: str
    events: int
    """How many events its history has."""
    recorded_by: str
    """The build id of the worker that took the run's first task; "" if none has yet."""
    difference: Difference | None
    """The first decision that differs; None if none does."""


async def replayed(history: WorkflowHistory, keys: Keys | None, namespace: str) -> Replayed:
    """Replay a run against this tree.

    `keys` are the node's, None if it has none. Commands are signed for Temporal's `namespace`. Raises NoHistory if this
    tree no longer supports the history's version of decisions, or if the history was signed or encrypted with other
    keys.
    """
    events = checked(history).events
    started = events[0].workflow_execution_started_event_attributes
    workflow_id, run_id = started.workflow_id or history.workflow_id, started.original_execution_run_id
    tasks = completed_tasks(events)
    if not tasks:
        return Replayed(workflow_id, run_id, len(events), "", None)
    first = events[tasks[0] - 1].workflow_task_completed_event_attributes
    recorded_by = first.worker_version.build_id or first.binary_checksum
    if refusal := too_old(decisions_of(recorded_by)):
        raise NoHistory(f"{workflow_id}, run {run_id}: {refusal}")
    keys = await _keys_of(history, keys, namespace, workflow_id)

    def input_of(payloads: Sequence[Payload]) -> Mapping[str, Any]:
        return _input(payloads, keys)

    then = recorded(events, input_of)
    watching = Watching(workflow_runner(), started.task_queue.name, tasks, input_of)
    plugin = syncpod_plugin(workflows=WORKFLOWS, runner=watching, keys=keys)
    failure = ""
    try:
        with _silent():
            # debug_mode lifts the two-second limit of a task, which a slow machine could exceed.
            await Replayer(
                workflows=[], plugins=[plugin], namespace=namespace, runtime=quiet_runtime(), debug_mode=True
            ).replay_workflow(WorkflowHistory(workflow_id, events))
    except (NondeterminismError, RuntimeError) as error:
        failure = _words(error)
    found = difference(then, watching.decisions, failure)
    if watching.failed is not None:
        found = Difference(watching.failed.task, "", watching.failed.words, failure)
    elif failure and found is None:
        found = _noticed(failure, watching, then + others(events))
    return Replayed(workflow_id, run_id, len(events), recorded_by, found)


def _noticed(failure: str, watching: Watching, then: Sequence[Decided]) -> Difference:
    """Return a difference that only the SDK found: an extra or missing command that is not a decision."""
    taken = [*watching.decisions, *watching.others]
    newest = max((each.task for each in taken), default=0)
    at = _EVENT.search(failure)
    event = int(at[1]) if at else newest
    more = Counter(each.words for each in taken if each.task == newest)
    more -= Counter(each.words for each in then if each.task == newest)
    words = next((each.words for each in then if each.event == event), "")
    return Difference(event, words, ", ".join(more), failure)


async def _keys_of(history: WorkflowHistory, keys: Keys | None, namespace: str, workflow_id: str) -> Keys | None:
    """Return the keys that the run's worker had; None if it had none. Raises NoHistory if they are not in `keys`.

    If a run began without a signature and took steps, its node has no keys.
    """
    payloads = list(history.events[0].workflow_execution_started_event_attributes.input.payloads)
    is_coded = any(SIGNATURE in each.metadata or is_encrypted(each.metadata) for each in payloads)
    if keys is None:
        if any(is_encrypted(each.metadata) for each in payloads):
            raise NoHistory(f"{workflow_id}: {UNREADABLE}")
        return None
    if not any(event.HasField("activity_task_scheduled_event_attributes") for event in history.events):
        return keys
    if not is_coded:
        return None
    placed = verifying_converter(keys).with_context(WorkflowSerializationContext(namespace, workflow_id))
    assert placed.payload_codec is not None
    refusals = [each.metadata.get(REFUSAL, b"").decode() for each in await placed.payload_codec.decode(payloads)]
    if refusal := next(filter(None, refusals), ""):
        raise NoHistory(
            f"{workflow_id}: its start is not accepted with the keys of this state directory ({refusal}): "
            "name its node's in SYNCPOD_STATE_DIR, and its Temporal namespace in TEMPORAL_NAMESPACE"
        )
    return keys


def _input(payloads: Sequence[Payload], keys: Keys | None) -> Mapping[str, Any]:
    """Return the JSON of a step's input; {} if it cannot be decrypted or parsed."""
    if not payloads:
        return {}
    payload = payloads[0]
    try:
        if keys is not None and is_encrypted(payload.metadata):
            payload = decrypted(keys.by_id, None, payload)
        given = DATA_CONVERTER.payload_converter.from_payload(payload, dict)
    except (Undecipherable, ValueError, RuntimeError):
        return {}
    return given if isinstance(given, dict) else {}


def _words(failure: Exception) -> str:
    """Return the SDK's sentence, without the structures around it."""
    text = str(failure)
    if inner := _INNER.search(text):
        text = str(json.loads(f'"{inner[1]}"'))
    return sentence.group() if (sentence := _SENTENCE.search(text)) else text


@contextmanager
def _silent() -> Iterator[None]:
    """Disable all logging: the SDK would log each failed task, which is the replay's result."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
