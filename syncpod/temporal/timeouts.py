"""Time-outs of the server that a worker has to keep, also on a busy machine.

What a dead worker leaves behind is failed or handed back by the next one as it boots (`syncpod.agent.takeover.boot`),
so none of them has to be short. One that is missed makes more work: the server gives the task out again, to a worker
that then replays the workflow from its beginning.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

WORKFLOW_TASK: Final = timedelta(seconds=10)
"""How long a workflow task may take: Temporal's own default."""

STICKY_QUEUE: Final = timedelta(seconds=60)
"""How long a task may lie in the queue of the worker that has its workflow in its cache: a crowd of pods waits there,
since a worker takes only a few tasks at a time."""

HEARTBEAT_THROTTLE: Final = timedelta(seconds=1)
"""The shortest time between two heartbeats of a step, and so the longest until it learns of its cancellation."""
