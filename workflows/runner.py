"""How the workflow is run: Temporal's sandbox, with everything but :mod:`workflows.pod` passed through.

The sandbox would load each module afresh for every run; what is pure by contract (import rules, property tests) is
loaded once. Worker, replayer and tests all use this one runner, so that they cannot differ.
"""

from __future__ import annotations

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

PASSED_THROUGH = (
    "syncpod",
    "workflows.absorb",
    "workflows.decide",
    "workflows.desired",
    "workflows.outcome",
    "workflows.report",
    "workflows.start",
    "workflows.state",
    "workflows.steps",
)
"""Modules loaded once for all runs."""


def workflow_runner() -> SandboxedWorkflowRunner:
    """Return the runner that worker, replayer and tests share."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
