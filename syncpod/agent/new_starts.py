"""Makes the start of a new run in place of a stuck one: of a pod's workflow, or of the node's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client

from syncpod.messages.identity import POD_WORKFLOW, PodRef, pod_workflow_id
from syncpod.messages.node import NODE_MEMO, NODE_WORKFLOW, NodeSummary
from syncpod.messages.node_commands import NODE_COMMANDS
from syncpod.messages.pod_commands import POD_COMMANDS
from syncpod.node.pod_records import PodRecord, read_pod_records
from syncpod.node.workflow_snapshots import WorkflowSnapshot
from syncpod.pod import Pod, pod_to_wire
from syncpod.temporal.workflow_starts import adoption, node_start_arguments, start_arguments
from syncpod.translation.context import NodeContext


@dataclass
class RunStart:
    """How to start a run."""

    input: dict[str, Any]
    since: str
    """A phrase for the log that names the state from which the run continues."""
    arguments: dict[str, Any]
    """The arguments of the start, except the input and the conflict policy."""
    ref: PodRef | None = None
    """The workflow's pod; None = it is the node's workflow."""
    signals: list[tuple[str, list[Any]]] = field(default_factory=list)
    """The stuck run's signals that the new run receives with its input: names and arguments."""
    left_out: int = 0
    """How many signals it does not receive: they exceed the size limit, or one of them may make each task fail."""


class Kind(Protocol):
    """The differences between the start of a pod's workflow and that of a node's."""

    workflow_type: str
    passed_on: Mapping[str, str]
    """By purpose of a command that the new run gets: the name of the signal with the same effect
    (`CommandTable.passed_on`)."""

    def going_on(self, snapshot: WorkflowSnapshot) -> RunStart:
        """Return the start that continues from `snapshot`. Raises ValueError if the snapshot is invalid."""

    async def afresh(self, workflow_id: str, described: DescribeWorkflowExecutionResponse) -> RunStart | None:
        """Return the start without a snapshot; None if the node has no record to start from. Raises OSError."""


class PodStarts(Kind):
    """Starts of pods' workflows; without a snapshot, from the node's record of the pod."""

    workflow_type: str = POD_WORKFLOW
    passed_on = POD_COMMANDS.passed_on

    def __init__(self, node: NodeContext, has_attributes: Callable[[], bool]) -> None:
        """`has_attributes` returns whether the namespace has our search attributes."""
        self._node = node
        self._has_attributes = has_attributes

    def going_on(self, snapshot: WorkflowSnapshot) -> RunStart:
        """Return the start that continues from `snapshot`. Raises ValueError if it has no pod."""
        pod = Pod.model_validate(snapshot.next_input.get("snapshot", {}).get("pod", {}))
        return self._start(pod, snapshot.next_input, _named(snapshot))

    async def afresh(self, workflow_id: str, described: DescribeWorkflowExecutionResponse) -> RunStart | None:
        """Return the start from the pod's record, as ``syncpod adopt --force`` makes it; None if there is no record."""
        record = _record_of(workflow_id, await asyncio.to_thread(read_pod_records, self._node))
        if record is None:
            return None
        given = {"pod": pod_to_wire(record.pod), **adoption(record.incarnation)}
        return self._start(record.pod, given, "its node's record of it")

    def _start(self, pod: Pod, given: dict[str, Any], since: str) -> RunStart:
        ref = PodRef(namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid)
        return RunStart(given, since, start_arguments(pod, self._node.name, has_attributes=self._has_attributes()), ref)


class NodeStarts(Kind):
    """Starts of the node's workflow; without a snapshot, from the node's name and whether it is cordoned.

    In that case the agent sends the new run the rest: the status, the manifests, and the lists of pods.
    """

    workflow_type: str = NODE_WORKFLOW
    passed_on = NODE_COMMANDS.passed_on

    def __init__(self, client: Client, node: NodeContext, has_attributes: Callable[[], bool]) -> None:
        """`has_attributes` returns whether the namespace has our search attributes."""
        self._client = client
        self._node = node
        self._has_attributes = has_attributes

    def going_on(self, snapshot: WorkflowSnapshot) -> RunStart:
        """Return the start that continues from `snapshot`."""
        return self._start(snapshot.next_input, _named(snapshot))

    async def afresh(self, workflow_id: str, described: DescribeWorkflowExecutionResponse) -> RunStart:
        """Return the start without a snapshot: from the name of the node, and from its memo."""
        memo = described.workflow_execution_info.memo.fields
        said = (await self._client.data_converter.decode([memo[NODE_MEMO]]))[0] if NODE_MEMO in memo else {}
        given = {"node": self._node.name, "unschedulable": NodeSummary.model_validate(said).unschedulable}
        return self._start(given, "its name alone; its agent sends the rest again")

    def _start(self, given: dict[str, Any], since: str) -> RunStart:
        return RunStart(given, since, node_start_arguments(self._node.name, has_attributes=self._has_attributes()))


def _named(snapshot: WorkflowSnapshot) -> str:
    return f"its state at {snapshot.at:%Y-%m-%dT%H:%M:%SZ}"


def _record_of(workflow_id: str, records: tuple[PodRecord, ...]) -> PodRecord | None:
    """Return the record of a workflow's pod; the newest one, if earlier pods of that name have left records."""
    ours = [
        record
        for record in records
        if record.incarnation
        and pod_workflow_id(record.pod.metadata.namespace or "default", record.pod.metadata.name) == workflow_id
    ]
    return max(ours, key=lambda each: str(each.pod.metadata.creation_timestamp or ""), default=None)
