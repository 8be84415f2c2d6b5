"""Reads the runtime's part of the Node's status, and caches it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.kubernetes.node_runtime import Handler, Image, of_runtime

log = logging.getLogger(__name__)

KEPT_SECONDS: Final = 30.0
"""Seconds for which an answer is cached (as in the kubelet's image cache)."""


class RuntimeReport:
    """The fields of a Node's status that come from its runtime."""

    def __init__(self, cri: CriRuntime) -> None:
        """Read from `cri`."""
        self._cri = cri
        self._known: Mapping[str, Any] = {}
        self._asked_at = float("-inf")

    async def read(self) -> Mapping[str, Any]:
        """Return the runtime's fields of the Node's status; if the runtime does not answer, the cached ones."""
        if time.monotonic() - self._asked_at < KEPT_SECONDS:
            return self._known
        self._asked_at = time.monotonic()
        try:
            status, images = await self._cri.status(), await self._cri.list_images()
        except CriError as error:
            log.debug("cannot ask the runtime for its images: %s", error)
            return self._known
        self._known = of_runtime(
            [Image(each.repo_digests, each.repo_tags, each.size) for each in images if not each.stands_for_machine],
            [
                Handler(each.name, each.recursive_read_only_mounts, each.user_namespaces)
                for each in status.runtime_handlers
            ],
            groups_policy=status.supplemental_groups_policy,
        )
        return self._known
