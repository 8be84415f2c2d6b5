"""The table of a node's steps: each activity's name, timeout and priority.

Temporal makes three quick tries. Then the failure comes back to the workflow, which decides on a visible back-off. So
a pod's workflow that does not answer never holds up the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio.common import Priority, RetryPolicy

from syncpod.messages.node import (
    ApplyPodWorkflow,
    ApplyPodWorkflows,
    DeletePodWorkflow,
    DeletePodWorkflows,
    NodeStepName,
)

NODE_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=1),
    maximum_attempts=3,
)

ANSWER = timedelta(seconds=20)
"""How long a pod's workflow may take to answer; it runs on the same worker."""


@dataclass(frozen=True)
class NodeStepSpec:
    """How one kind of step is run."""

    input: type[ApplyPodWorkflow | ApplyPodWorkflows | DeletePodWorkflow | DeletePodWorkflows]
    priority: Priority
    start_to_close: timedelta = ANSWER


NODE_STEPS: dict[NodeStepName, NodeStepSpec] = {
    NodeStepName.APPLY_POD: NodeStepSpec(ApplyPodWorkflow, Priority(priority_key=3)),
    NodeStepName.APPLY_PODS: NodeStepSpec(ApplyPodWorkflows, Priority(priority_key=3)),
    NodeStepName.DELETE_POD: NodeStepSpec(DeletePodWorkflow, Priority(priority_key=1)),
    NodeStepName.DELETE_PODS: NodeStepSpec(DeletePodWorkflows, Priority(priority_key=1)),
}
"""Every step of a node. A test compares this table with the registered activities."""
