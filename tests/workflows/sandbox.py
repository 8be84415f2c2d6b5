"""Temporal's sandbox for tests, without repeated imports and without work outside of the workflow's code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

PASSED_THROUGH = (
    "syncpod",
    "workflows.pod.absorb",
    "workflows.pod.decide",
    "workflows.pod.desired",
    "workflows.pod.killing",
    "workflows.pod.observing",
    "workflows.pod.outcome",
    "workflows.pod.published",
    "workflows.pod.report",
    "workflows.pod.start",
    "workflows.pod.state",
    "workflows.pod.verdicts",
    "workflows.restarted",
)
"""Modules that the sandbox loads once for all runs. They are pure."""


def sandboxed_runner() -> WorkflowRunner:
    """Return the runner of the workflow's tests. It rejects calls that are not deterministic."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))


_validated: set[type] = set()
"""The workflows that this process has test-loaded in the sandbox."""


class Sandbox(WorkflowRunner):
    """Runs each workflow in the sandbox.

    For each worker, and so for every test, the SDK loads the workflow only to see whether it can; here each process
    does so once. And it enters the sandbox for each payload to ask what the payload belongs to, a tenth of the CPU of
    a workflow test. No code of the workflow answers that, so it is asked from outside.
    """

    def __init__(self) -> None:
        self._runner = sandboxed_runner()

    def prepare_workflow(self, defn: Any) -> None:
        """Load the workflow in the sandbox, unless this was done before; raises what loading it raises."""
        if defn.cls not in _validated:
            self._runner.prepare_workflow(defn)
            _validated.add(defn.cls)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Call the sandbox."""
        instance: Any = self._runner.create_instance(det)
        within = instance.globals_and_locals["__temporal_in_sandbox"]
        instance.get_serialization_context = within.get_serialization_context
        instance.get_external_store_context = within.get_external_store_context
        return instance  # type: ignore[no-any-return]

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        """Call the sandbox."""
        self._runner.set_worker_level_failure_exception_types(types)
