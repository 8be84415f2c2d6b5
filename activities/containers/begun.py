"""Whether the process of a container that is listed as created may have run."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Final

from activities.step_attempt import StepAttempt
from syncpod.cri.errors import NotFound
from syncpod.node.pod_threads import DiskWork
from syncpod.node.start_marks import has_start_mark

_FORGETS_STARTS: Final = "containerd"
"""The runtime that may list a container as created after it has run. The others ask the process or its supervisor."""


async def may_have_begun(attempt: StepAttempt, container_id: str) -> bool:
    """Say whether the process of a created container may have run.

    A containerd that is killed while it starts a container knows nothing of that start afterwards: it kills what it
    finds, and lists the container as created (restart.go, 1.6 to 2.4, loadContainer). Trusting that state would run the
    container a second time. But the node noted the start, and the runtime opens the container's log before it creates
    the process: without a mark or a log nothing has run. Raises CriError, OSError.
    """
    cri, context = attempt.node.cri, attempt.node.context
    if not await asyncio.to_thread(has_start_mark, context, attempt.ref.uid, container_id):
        return False
    if (await cri.version()).name != _FORGETS_STARTS:
        return False
    try:
        log = (await cri.container_status(container_id)).log_path
    except NotFound:
        return True
    return bool(log) and await attempt.on_disk(DiskWork.LOGS, partial(os.path.lexists, log))
