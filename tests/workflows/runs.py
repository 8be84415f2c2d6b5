"""The runs that a test's worker executed. They are replayed from their start after the test."""

from __future__ import annotations

from typing import Any

from temporalio.client import Client
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner

from tests.replay.differences import replay


class Noting(WorkflowRunner):
    """A runner that records the runs that it executes."""

    def __init__(self, runner: WorkflowRunner) -> None:
        self._runner = runner
        self._runs: list[tuple[str, str]] = []

    def prepare_workflow(self, defn: Any) -> None:
        """Call the runner."""
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Call the runner, and record the run."""
        self._runs.append((det.info.workflow_id, det.info.run_id))
        return self._runner.create_instance(det)

    async def replay(self, client: Client) -> None:
        """Replay each run from its start, by the runner of workers; raises Differs if a decision differs."""
        for workflow_id, run_id in dict.fromkeys(self._runs):
            await self._replay_run(client, workflow_id, run_id)

    async def replay_before_removal(self, client: Client, workflow_id: str, run_id: str) -> None:
        """Replay a closed run now: the test will have the server delete it. Raises Differs."""
        await self._replay_run(client, workflow_id, run_id)
        self._runs = [run for run in self._runs if run != (workflow_id, run_id)]

    async def _replay_run(self, client: Client, workflow_id: str, run_id: str) -> None:
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        await replay(f"of {workflow_id}, run {run_id}", history)
