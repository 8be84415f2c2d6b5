"""Follows the runtime's version, which changes when the runtime is upgraded while the worker runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from syncpod.cri.errors import CriError
from syncpod.cri.port import RuntimeVersion

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""Seconds between two polls: nodeStatusUpdateFrequency, as the kubelet polls with each update of its node's status."""


class FollowedVersion:
    """The current name and version of one runtime."""

    def __init__(
        self,
        first: RuntimeVersion,
        ask: Callable[[], Awaitable[RuntimeVersion]],
        changed: Callable[[RuntimeVersion], None],
    ) -> None:
        """Begin with `first`. `ask` polls the runtime, and raises CriError.

        `changed` is called in a thread with each new version. If it raises OSError, the next poll calls it again.
        """
        self.current = first
        self._ask = ask
        self._changed = changed

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Poll once. If the runtime does not answer, the version stays."""
        try:
            version = await self._ask()
        except CriError as error:
            log.debug("the runtime does not say its version: %s", error)
            return
        if version == self.current:
            return
        log.info("the runtime is now %s %s", version.name, version.version)
        try:
            await asyncio.to_thread(self._changed, version)
        except OSError as error:
            log.warning("the runtime's new version cannot be written down yet: %s", error.strerror)
        else:
            self.current = version
