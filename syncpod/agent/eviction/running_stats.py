"""Reads the statistics of one pod's running containers from the runtime, for both kinds of eviction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from syncpod.cri.port import ContainerStats, CriRuntime
from syncpod.lifecycle.observed import ObservedPod

STATS_SECONDS: Final = 2.0
"""Seconds that the runtime may take to report one pod's container stats; with a hung shim, it never reports them."""

Newest = Callable[[str], ObservedPod | None]
"""Returns the newest listing of the pod with this UID; None if there is none."""


class RunningStats:
    """The statistics of one node's running containers."""

    def __init__(self, cri: CriRuntime, newest: Newest) -> None:
        """Read statistics through `cri`. A pod's running containers are those in its `newest` listing."""
        self._cri = cri
        self._newest = newest

    def has_sandbox(self, uid: str) -> bool:
        """Say whether a pod has a ready sandbox. Without one, no container of it writes."""
        return bool(self._sandbox(uid))

    async def read(self, uid: str) -> list[ContainerStats]:
        """Return the statistics of a pod's running containers; empty if it has no ready sandbox. Raises CriError.

        Dead containers do not count (stats/cri_stats_provider.go, v1.36, removeTerminatedContainers).
        """
        sandbox = self._sandbox(uid)
        if not sandbox:
            return []
        stats = await self._cri.list_container_stats(sandbox_id=sandbox, timeout_seconds=STATS_SECONDS)
        listing = self._newest(uid)
        running = {each.id for each in listing.containers if each.state == "running"} if listing else set()
        return [each for each in stats if each.id in running]

    def _sandbox(self, uid: str) -> str:
        listing = self._newest(uid)
        return next((each.id for each in listing.sandboxes if each.ready), "") if listing else ""
