"""Heartbeat timeout and retry policy of a pod's steps; the table of steps is `syncpod.messages.step_table`.

Temporal retries only transport faults: quickly at first, then every five seconds without limit, until the runtime comes
back or the pod's deletion cancels the step. Pod-level faults are non-retryable. They come back to the workflow, which
decides on a visible back-off.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio.common import RetryPolicy

HEARTBEAT_TIMEOUT = timedelta(seconds=30)
"""Three heartbeats of a step that waits for others; even a busy machine can keep them. It is how long a step stays lost
if the server dies just as it hands the step over. No shorter timeout is needed: a new worker fails the steps of
the last one at boot (`syncpod.agent.takeover.pods`), and a step's own worker makes it ask for its cancellation."""

RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=5)
)
