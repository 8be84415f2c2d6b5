"""The agent's interface for workflow tasks: they publish states, report failures, and look up which runs have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from syncpod.agent.ended_runs import EndedRuns
from syncpod.agent.journal import Journal
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.stuck_workflows import StuckWorkflows
from syncpod.temporal.workflow_watch import Published


class TaskWatch:
    """The worker's `WorkflowWatch`. Threads of workflow tasks call it; reports go to the worker's event loop."""

    def __init__(
        self, published_pods: PublishedPods, journal: Journal, stuck_workflows: StuckWorkflows, ended_runs: EndedRuns
    ) -> None:
        """Pass published states and failures of tasks on to these parts."""
        self._published_pods, self._journal = published_pods, journal
        self._stuck_workflows, self._ended_runs = stuck_workflows, ended_runs
        self._loop = asyncio.get_running_loop()

    def pods(self) -> Sequence[Published]:
        """Return the newest state of each pod that this worker has seen."""
        return list(self._published_pods.pods().values())

    def published(self, workflow_id: str, run_id: str, published: Published) -> None:
        """Pass on the state that a workflow's task has published."""
        self._loop.call_soon_threadsafe(self._take, workflow_id, run_id, published)

    def _take(self, workflow_id: str, run_id: str, published: Published) -> None:
        self._published_pods.take(workflow_id, run_id, published)
        self._journal.take(workflow_id, run_id, published)
        self._stuck_workflows.went_on(workflow_id, run_id)

    def task_failed(self, workflow_id: str, run_id: str, why: str) -> None:
        """Note that a workflow's task has failed."""
        self._loop.call_soon_threadsafe(self._stuck_workflows.failed, workflow_id, run_id, why)

    def has_ended(self, workflow_id: str, run_id: str) -> bool:
        """Say whether a run is known to have ended."""
        return self._ended_runs.has_ended(workflow_id, run_id)
