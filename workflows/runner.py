"""How workflows are run: without Temporal's sandbox by workers, and inside it by most of their tests.

The sandbox loads the workflow's module afresh for every run and is entered again for every payload. That delays a pod's
first step by about 5 ms and takes a fifth of the CPU of a pod's start. Import contracts exclude what the sandbox would
catch: workflows import only what decides (`lifecycle`, `fleet`), models (`pod`, `messages`), the records of the journal
and `go_durations`. `lifecycle`, `fleet` and `pod` may import no clock, no randomness and no I/O. The tests run inside
the sandbox, with and without a cache, to catch what an import contract cannot see.
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
    "workflows.pod.published",
    "workflows.pod.report",
    "workflows.pod.start",
    "workflows.pod.state",
    "workflows.pod.steps",
    "workflows.restarted",
)
"""Modules that the sandbox loads once for all runs. They are pure."""


def workflow_runner() -> WorkflowRunner:
    """Return the runner of workers and replayers."""
    return UnsandboxedWorkflowRunner()


def sandboxed_runner() -> WorkflowRunner:
    """Return the runner of the workflow's tests. It rejects calls that are not deterministic."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
