"""Removes dangling links to containers' logs. The removal of a container removes its own link.

Links remain if another program removes logs. Mirrors kuberuntime_gc.go, v1.36, evictPodLogsDirectories. Differences: a
link is removed only if it dangles in two consecutive rounds, since a log that is being rotated is missing for a moment.
The link must also belong to a pod of this node, or to a pod without a log directory: a kubelet may have its links in
the same directory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from syncpod.kernel.os_errors import where_and_why
from syncpod.lifecycle.observed import ObservedPod
from syncpod.node.log_links import Dangling, dangling_links

log = logging.getLogger(__name__)


class LogLinks:
    """Removes the dangling links of one node."""

    def __init__(self, log_dir: Path, listings: Callable[[], Iterable[ObservedPod]], *, period: float = 60.0) -> None:
        """Check every `period` seconds; `listings` returns the newest listing of each pod of the node."""
        self._log_dir = log_dir
        self._listings = listings
        self._period = period
        self._seen: frozenset[Dangling] = frozenset()
        self._obstacle = ""

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(self._period)
            await self.round()

    async def round(self) -> int:
        """Check once; return how many links were removed."""
        try:
            found = frozenset(await asyncio.to_thread(dangling_links, self._log_dir))
            gone = [each for each in found & self._seen if self._may_go(each)]
            for each in gone:
                await asyncio.to_thread(each.link.unlink, missing_ok=True)
        except OSError as error:
            if where_and_why(error) != self._obstacle:
                log.warning("links to logs that are gone stay for now: %s", error)
            self._obstacle = where_and_why(error)
            return 0
        self._obstacle = ""
        self._seen = found.difference(gone)
        return len(gone)

    def _may_go(self, link: Dangling) -> bool:
        """Say whether the link is this node's, and no container that is still alive may write the log again."""
        pods = tuple(self._listings())
        alive = (each.id for pod in pods for each in pod.containers if each.state != "exited")
        if any(each.startswith(link.container_id) for each in alive):
            return False
        return not link.logs.exists() or link.logs.name.rpartition("_")[2] in {pod.uid for pod in pods}
