"""How the workflow is run: as it is, and in tests inside Temporal's sandbox.

The sandbox loads the workflow's module afresh for every run and enters itself again for every payload: some 5 ms before
a pod's first step, and a fifth of what the worker computes for its start. What it would catch is kept out by contract:
the workflow calls nothing but `lifecycle`, `pod` and `messages`, which know no clock, no chance and no I/O. Its own
tests run inside it all the same, with and without a cache, so that what a contract cannot see fails there.
"""

from __future__ import annotations

from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

PASSED_THROUGH = (
    "syncpod",
    "workflows.pod.absorb",
    "workflows.pod.decide",
    "workflows.pod.desired",
    "workflows.pod.outcome",
    "workflows.pod.report",
    "workflows.pod.start",
    "workflows.pod.state",
    "workflows.pod.steps",
)
"""Modules that the sandbox loads once for all runs: pure by contract."""


def workflow_runner() -> WorkflowRunner:
    """Return the runner of workers and replayers."""
    return UnsandboxedWorkflowRunner()


def sandboxed_runner() -> WorkflowRunner:
    """Return the runner of the workflow's tests, which refuses what is not deterministic."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
