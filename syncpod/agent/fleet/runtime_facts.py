"""The facts about an embedded runtime that a fleet needs: images with files of their own, and limits that it refuses.

That runtime has no registry: any other image is only a name that stands for the machine's programs. So the fleet can
warn of a template whose image a node does not have. Without access to cgroups it enforces no limits, and the fleet
places no pod there that has one.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from syncpod.cri import CriRuntime
from syncpod.cri.errors import CriError
from syncpod.cri.records import unenforced_limits
from syncpod.translation.features import runs_processes

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How long these facts are taken as current."""
MOST_BYTES: Final = 4096
"""The most bytes of all names: a report of a node has at most 16 KiB."""


class RuntimeFacts:
    """Looks at the runtime, when it is asked to and has not just looked."""

    def __init__(self, cri: CriRuntime) -> None:
        self._cri = cri
        self._looks_again = 0.0
        self.images: tuple[str, ...] | None = None
        """Sorted full names, as ``docker.io/library/nginx:1``; None = not known, or the runtime pulls images."""
        self.unenforced: tuple[str, ...] = ()
        """The resources whose limits it cannot enforce, sorted; ``hugepages`` stands for all sizes."""

    async def look(self) -> None:
        """Look again, unless that was done less than LOOK_SECONDS ago. If the runtime fails, nothing changes."""
        now = time.monotonic()
        if now < self._looks_again:
            return
        self._looks_again = now + LOOK_SECONDS
        try:
            status = await self._cri.status(verbose=True)
            self.unenforced = tuple(sorted(unenforced_limits(status.info)))
            if not runs_processes(status, await self._cri.version()):
                self.images = None
                return
            images = await self._cri.list_images()
        except CriError as error:
            log.debug("the runtime cannot be asked for its images and limits: %s", error)
            return
        own = (image for image in images if not image.stands_for_machine)
        names = sorted(name for image in own for name in (*image.repo_tags, *image.repo_digests))
        self.images = tuple(names) if sum(map(len, names)) <= MOST_BYTES else None
