"""Makes the runner that workers use for workflows, without Temporal's sandbox.

The sandbox loads the workflow's module afresh for every run and is entered again for every payload. That delays a pod's
first step by about 5 ms and takes a fifth of the CPU of a pod's start. Import contracts exclude the faults that the
sandbox would catch: workflows import only decisions (`lifecycle`, `fleet`), models (`pod`, `messages`), the records of
the journal and `go_durations`. `lifecycle`, `fleet` and `pod` may import no clock, no randomness and no I/O. Most tests
of workflows run inside the sandbox (`tests/workflows/sandbox.py`), with and without a cache, to catch faults that no
import contract can see.
"""

from __future__ import annotations

from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowRunner


def workflow_runner() -> WorkflowRunner:
    """Return the runner of workers and replayers."""
    return UnsandboxedWorkflowRunner()
