"""Removes what pods' workflows leave to the node when they end: sandboxes, dead containers, cgroup, volumes and logs.

A deleted pod's workflow ends as soon as its kill has stopped everything: by then the server knows how each container
ended, and the node has noted on its disk that this life of the pod is over. So the removal needs no step, which would
be half as much work for the server as the whole rest of a deletion. If the worker dies before the removal,
:mod:`syncpod.agent.housekeeping.gone_pods` does it, or the first step of the pod's next life.

Mirrors kuberuntime_gc.go and pod_container_deletor.go, v1.36: there too garbage collection removes what the end of a
pod leaves, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from syncpod.agent.background import cancel_all
from syncpod.cri.errors import CriError
from syncpod.messages.identity import PodRef
from syncpod.messages.steps import RemovePod

log = logging.getLogger(__name__)

PAUSES_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""When a removal is tried again that was not possible, since the pod's dead containers were just being collected, or
the runtime was away."""
CLOSE_SECONDS: Final = 10.0
"""How long the worker, once it is asked to end, goes on removing what has been left to it."""


class Remover(Protocol):
    """Removes what was left: `activities.between.collection.Collector`."""

    async def remove_left(self, request: RemovePod) -> bool:
        """Remove it, unless somebody else acts in the pod; say whether nothing is left to do.

        Raises CriError, OSError.
        """


class LeftPods:
    """Removes what was left of pods on one node. All methods belong to one event loop."""

    def __init__(self, remover: Remover, *, began: Callable[[PodRef], None], ended: Callable[[PodRef], None]) -> None:
        """Remove by `remover`; `began` and `ended` are called around each removal, so that no signal tells of it."""
        self._remover = remover
        self._began = began
        self._ended = ended
        self._removing: set[asyncio.Task[None]] = set()

    def take(self, request: RemovePod) -> None:
        """Begin to remove what a workflow has left. It waits its turn, after all pods that are to be stopped."""
        task = asyncio.create_task(self._remove(request), name=f"remove {request.ref.uid}")
        self._removing.add(task)
        task.add_done_callback(self._removing.discard)

    async def run(self) -> None:
        """Wait until cancelled; then go on for a while, and cancel what is still under way."""
        try:
            await asyncio.Event().wait()
        finally:
            if self._removing:
                await asyncio.wait(self._removing, timeout=CLOSE_SECONDS)
            await cancel_all(self._removing)

    async def _remove(self, request: RemovePod) -> None:
        ref, why = request.ref, "somebody else acts in it"
        self._began(ref)
        try:
            for pause in (None, *PAUSES_SECONDS):
                if pause is not None:
                    await asyncio.sleep(pause)
                try:
                    if await self._remover.remove_left(request):
                        return
                except (CriError, OSError) as error:
                    why = str(error)
            log.warning("the remains of pod %s/%s (uid %s) stay for now: %s", ref.namespace, ref.name, ref.uid, why)
        except Exception:
            log.exception("the remains of pod %s stay for now because of a defect", ref.uid)
        finally:
            self._ended(ref)
