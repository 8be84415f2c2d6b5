"""The Temporal worker of a node: how many tasks it takes at once, and how long each may last."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker

from activities.node.context import Node
from syncpod.agent.agent import Agent
from syncpod.messages.signature import Keys
from syncpod.node.begun_runs import BegunRuns
from syncpod.temporal.plugin import syncpod_plugin, verifying
from syncpod.temporal.pod_orders import STARTS_AT_ONCE
from syncpod.temporal.step_cancellation import StepCancellation
from syncpod.temporal.timeouts import HEARTBEAT_THROTTLE, STICKY_QUEUE
from syncpod.worker.build import build_id
from syncpod.worker.served import ServedByNode
from workflows.runner import workflow_runner

GRACE = timedelta(seconds=5)
"""How long steps may continue after SIGTERM. Then they stop at a safe point, and the next worker continues them."""
WORKFLOW_TASKS_AT_ONCE = 24
"""The number of polls for workflow tasks. The server writes a task to its database if no poll waits for it. But with
more polls, a restarted worker would replay more workflows at once, and each task has only ten seconds for that."""
_POLLS_FOR_ANY_WORKER = 4
"""The number of these polls that wait for tasks of workflows that this worker does not have in its cache."""
EAGER_STARTS_AT_ONCE = STARTS_AT_ONCE
"""Slots for the first tasks of pods' workflows, which the server returns with its answer to their start. The waiting
polls occupy all other slots."""
UNLIMITED_PODS = 10_000
"""The number of pods assumed for a node without a limit."""
SPARE_WORKFLOWS = 100
"""Cached workflows in addition to those of admitted pods: the node's own, and those of rejected pods."""


def make_worker(served: ServedByNode, client: Client, node: Node, agent: Agent, *, keys: Keys | None) -> Worker:
    """Return the Temporal worker of a node, not yet running. With `keys`, it accepts only signed commands."""
    begun = None if keys is None else BegunRuns(node.context.state_dir, newest=keys.number()).refusal
    return Worker(
        client if keys is None else verifying(client, keys),
        task_queue=served.task_queue(node.context.name),
        identity=client.identity,
        build_id=build_id(),
        plugins=[
            syncpod_plugin(
                workflows=served.workflows,
                activities=served.activities(node, agent.pod_orders),
                runner=workflow_runner(),
                arm_backoff=agent.step_port.arm_backoff,
                watch=agent.task_watch,
                keys=keys,
                begun=begun,
            )
        ],
        interceptors=[StepCancellation()],
        sticky_queue_schedule_to_start_timeout=STICKY_QUEUE,
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=GRACE,
        max_cached_workflows=cached_workflows(node.context.capacity),
        # Only one workflow task computes at a time. Further tasks wait in the server's queue, with a longer timeout.
        max_concurrent_workflow_tasks=WORKFLOW_TASKS_AT_ONCE + EAGER_STARTS_AT_ONCE,
        # A kill occupies its slot for the whole grace period, and all pods of a node may end at once.
        max_concurrent_activities=1000,
        workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(WORKFLOW_TASKS_AT_ONCE),
        activity_task_poller_behavior=PollerBehaviorSimpleMaximum(5),
        nonsticky_to_sticky_poll_ratio=_POLLS_FOR_ANY_WORKER / WORKFLOW_TASKS_AT_ONCE,
    )


def cached_workflows(capacity: Mapping[str, int]) -> int:
    """Return the size of the cache of workflows: all that a node of this capacity can have.

    A workflow that does not fit into the cache is replayed from its start for each task. Unused places take no memory.
    """
    return capacity.get("pods", UNLIMITED_PODS) + SPARE_WORKFLOWS
