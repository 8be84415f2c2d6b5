"""The common part of the followers of objects for a single pod: claims, tokens, trust bundles, certificates.

Either the node's store has such an object, or there is a reason why not. The reason is logged once, and is in the pod's
events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from syncpod.objects import ObjectRef, ObjectStore

log = logging.getLogger(__name__)


class FollowedGift:
    """The follower of one object for a single pod. All methods belong to one event loop."""

    has_logged_trouble: Final = True
    """True: the follower logs its trouble itself."""

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

        `tell` is called when the object is in the store, and with each new reason why the store lacks it or a newer
        one.
        """
        self._store, self._ref, self._tell = store, ref, tell
        self._lacks, self._level, self._within = lacks, level, within
        self.is_known = False
        """Whether this worker has found the object in the store, or has put it there."""
        self.trouble = ""
        """Why the store has neither the object nor a newer one; "" if it has one, or before the first answer."""
        self._again = asyncio.Event()

    def keep_again(self) -> None:
        """Check again whether the store has the object, which may have been lost there."""
        self._again.set()

    async def _rest(self, seconds: float | None) -> None:
        """Wait for `seconds` (None = without end), or until `keep_again` is called."""
        try:
            async with asyncio.timeout(seconds):
                await self._again.wait()
        except TimeoutError:
            return
        self._again.clear()

    def _succeed(self) -> None:
        """Note that the store has the newest object."""
        self.trouble = ""
        self._store.explain(self._ref, "")
        if not self.is_known:
            self.is_known = True
            self._tell()

    def _fail(self, why: str) -> None:
        """Note, log and publish why the store lacks the object, if the reason has changed."""
        if self.trouble == why:
            return
        self.trouble = why
        log.log(self._level, "%s: %s%s", self._lacks, self._within, why)
        self._store.explain(self._ref, f"{self._within}{why}")
        self._tell()
