"""How a pod's workflow has its steps watched and tried again; the table of steps is `syncpod.messages.step_table`.

Temporal retries only transport faults, quickly at first and then every five seconds without end: the runtime comes
back, or the pod is deleted and the step cancelled. Pod-level faults are non-retryable and come back to the workflow,
which decides a back-off that everybody can see.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio.common import RetryPolicy

HEARTBEAT_TIMEOUT = timedelta(seconds=3)
"""Also bounds how soon a step hears that it is cancelled, and how long a dead worker's step is missed."""

RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=5)
)
