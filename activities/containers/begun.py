"""Whether the process of a container that is listed as created may have run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from activities.step_attempt import StepAttempt
from syncpod.cri.errors import NotFound
from syncpod.node.start_marks import has_start_mark

_FORGETFUL: Final = "containerd"
"""The runtime that may list as created what has run. The others ask their process, or what stands above it."""


async def may_have_begun(attempt: StepAttempt, container_id: str) -> bool:
    """Say whether the process of a created container may have run.

    A containerd that is killed while it starts a container knows nothing of that start afterwards: it kills what it
    finds, and lists the container as created (restart.go, 1.6 to 2.4, loadContainer). To believe that would run the
    container a second time. The start was noted, though, and the runtime opens the container's log before it has the
    process made: without a mark or a log nothing has run. Raises CriError, OSError.
    """
    cri, context = attempt.node.cri, attempt.node.context
    if not await asyncio.to_thread(has_start_mark, context, attempt.ref.uid, container_id):
        return False
    if (await cri.version()).name != _FORGETFUL:
        return False
    try:
        log = (await cri.container_status(container_id)).log_path
    except NotFound:
        return True
    return bool(log) and await asyncio.to_thread(Path(log).exists)
