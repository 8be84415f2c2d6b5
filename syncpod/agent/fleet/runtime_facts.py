"""Facts about a node's embedded runtime for its fleet: its images that have files, and the limits it cannot enforce.

The embedded runtime has no registry: an image without own files is only a name for the machine's programs. With these
facts the fleet can warn of a template whose image the node lacks. Without access to cgroups the runtime enforces no
limits, and the fleet places no pod with such a limit there.
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
"""Seconds for which these facts count as current."""
MOST_BYTES: Final = 4096
"""The most bytes of all image names together: a node's report has at most 16 KiB."""


class RuntimeFacts:
    """Reads and caches the facts."""

    def __init__(self, cri: CriRuntime) -> None:
        self._cri = cri
        self._looks_again = 0.0
        self.images: tuple[str, ...] | None = None
        """Sorted full names, such as ``docker.io/library/nginx:1``; None if the runtime pulls images, or if they are
        unknown or too many."""
        self.unenforced: tuple[str, ...] = ()
        """The resources whose limits the runtime cannot enforce, sorted; ``hugepages`` stands for all sizes."""

    async def look(self) -> None:
        """Read the facts if the last read is LOOK_SECONDS old. If the runtime fails, nothing changes."""
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
            log.debug("the runtime's images and limits cannot be read: %s", error)
            return
        own = (image for image in images if not image.stands_for_machine)
        names = sorted(name for image in own for name in (*image.repo_tags, *image.repo_digests))
        self.images = tuple(names) if sum(map(len, names)) <= MOST_BYTES else None
