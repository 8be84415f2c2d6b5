"""The images with files of their own on an embedded runtime, which its node reports to its fleet.

That runtime has no registry: any other image is only a name that stands for the machine's programs. So the fleet can
warn of a template whose image a node does not have.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from syncpod.cri import CriRuntime
from syncpod.cri.errors import CriError
from syncpod.translation.features import runs_processes

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How long what was found is good for."""
MOST_BYTES: Final = 4096
"""The most bytes of all names: a report of a node has at most 16 KiB."""


class LoadedImages:
    """Looks which images were loaded, when it is asked to and has not just looked."""

    def __init__(self, cri: CriRuntime) -> None:
        self._cri = cri
        self._looks_again = 0.0
        self.names: tuple[str, ...] | None = None
        """Sorted full names, as ``docker.io/library/nginx:1``; None = not known, or the runtime pulls images."""

    async def look(self) -> None:
        """Look again, unless that was done less than LOOK_SECONDS ago. If the runtime fails, nothing changes."""
        now = time.monotonic()
        if now < self._looks_again:
            return
        self._looks_again = now + LOOK_SECONDS
        try:
            if not runs_processes(await self._cri.status(verbose=True), await self._cri.version()):
                self.names = None
                return
            images = await self._cri.list_images()
        except CriError as error:
            log.debug("which images are loaded cannot be asked: %s", error)
            return
        own = (image for image in images if not image.stands_for_machine)
        names = sorted(name for image in own for name in (*image.repo_tags, *image.repo_digests))
        self.names = tuple(names) if sum(map(len, names)) <= MOST_BYTES else None
