"""Whether the Temporal server is still the node's own, asked already before somebody has to know it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

_ASKED_SECONDS: Final = 0.5
"""For how long an answer counts."""


class OwnServer:
    """Asks ahead whose the server is. All methods belong to one event loop."""

    def __init__(self, require: Callable[[], Awaitable[None]]) -> None:
        """Ask by `require`, which raises RPCError if the server is not the node's."""
        self._require = require
        self._asked: tuple[float, asyncio.Future[None]] | None = None
        """Since when the server is being asked, or has been, and with what result."""

    def expect(self) -> None:
        """Ask already now, since something may have to be sent in a moment."""
        if self._asked is None or time.monotonic() - self._asked[0] > _ASKED_SECONDS / 2:
            asking = asyncio.ensure_future(self._require())
            asking.add_done_callback(_heard)
            self._asked = time.monotonic(), asking

    async def require(self) -> None:
        """Raise RPCError if the server is not the node's; it may have been asked a moment ago."""
        asked = self._asked
        if asked is None or time.monotonic() - asked[0] > _ASKED_SECONDS:
            await self._require()
        else:
            await asyncio.wait({asked[1]})
            asked[1].result()


def _heard(asking: asyncio.Future[None]) -> None:
    """Take note of an error that perhaps nobody asks for, so that asyncio does not report it."""
    if not asking.cancelled():
        asking.exception()
