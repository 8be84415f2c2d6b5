"""The common part of the four followers of a pod's own objects: claims, tokens, trust bundles, certificates.

The node's store has such a thing, or there is a reason why not, which the log has once, and the pod's events have too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from syncpod.objects import ObjectRef, ObjectStore

log = logging.getLogger(__name__)


class FollowedGift:
    """One such thing. All methods belong to one event loop."""

    has_said: Final = True
    """Whether the log has the trouble already."""

    def __init__(
        self,
        store: ObjectStore,
        ref: ObjectRef,
        tell: Callable[[], None],
        lacks: str,
        *,
        level: int = logging.WARNING,
        within: str = "",
    ) -> None:
        """`lacks` is the log's sentence without its reason: `pod default/web has no …`. `within` begins the reason.

        `tell` is called when the thing is known, and with each new reason why it, or a newer one, is not.
        """
        self._store, self._ref, self._tell = store, ref, tell
        self._lacks, self._level, self._within = lacks, level, within
        self.is_known = False
        """The store has the thing, as this worker has seen."""
        self.trouble = ""
        """Why it is not there, or no newer one; "" if it is, or before the first answer."""
        self._again = asyncio.Event()

    def keep_again(self) -> None:
        """Look once more whether the store has it: it may have been lost there."""
        self._again.set()

    async def _rest(self, seconds: float | None) -> None:
        """Return after so many seconds, None = never, or as soon as `keep_again` is called."""
        try:
            async with asyncio.timeout(seconds):
                await self._again.wait()
        except TimeoutError:
            return
        self._again.clear()

    def _succeed(self) -> None:
        """Take that the store has it, and that no newer one is due."""
        self.trouble = ""
        self._store.explain(self._ref, "")
        if not self.is_known:
            self.is_known = True
            self._tell()

    def _fail(self, why: str) -> None:
        """Take why it is not there."""
        if self.trouble == why:
            return
        self.trouble = why
        log.log(self._level, "%s: %s%s", self._lacks, self._within, why)
        self._store.explain(self._ref, f"{self._within}{why}")
        self._tell()
