"""Timeouts of the server that a worker has to meet, even on a busy machine.

The next worker fails or hands back the tasks of a dead one when it boots (`syncpod.agent.takeover.pods`), so no timeout
has to be short. A missed timeout causes more work: the server schedules the task again, for a worker that then replays
the workflow from its beginning.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

WORKFLOW_TASK: Final = timedelta(seconds=10)
"""How long a workflow task may take: Temporal's own default."""

STICKY_QUEUE: Final = timedelta(seconds=60)
"""How long a task may lie in the queue of the worker that has its workflow in its cache. Tasks of many pods may wait
there, since a worker takes only a few tasks at a time."""

HEARTBEAT_THROTTLE: Final = timedelta(seconds=1)
"""The worker sends a step's heartbeats to the server with at least this pause between two. Steps heartbeat more rarely,
but `step_cancellation` heartbeats for a step that is cancelled."""
