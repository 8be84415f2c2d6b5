"""When the step of a pod that begins or ends has asked the runtime for what takes long.

From then on the pod waits for the runtime, and worker and server have time for what is less urgent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

PATIENCE_SECONDS: Final = 0.05
"""How long what is less urgent waits: on a quiet machine a step has asked after 2 to 25 ms. A hook, a disk or other
pods may keep it from that for longer, and the next change of the manifests waits too."""


class FirstCalls:
    """What steps say of their calls, for those who wait. All methods belong to one event loop."""

    def __init__(self) -> None:
        """Wait for no pod yet."""
        self._awaited: dict[str, list[asyncio.Event]] = {}

    @contextlib.contextmanager
    def of(self, uid: str) -> Iterator[asyncio.Event]:
        """Give the block an event that is set once a step of the pod has asked, or has ended without."""
        awaited = self._awaited.setdefault(uid, [])
        awaited.append(event := asyncio.Event())
        try:
            yield event
        finally:
            awaited.remove(event)
            if not awaited and self._awaited.get(uid) is awaited:
                del self._awaited[uid]

    def asked(self, uid: str) -> None:
        """Tell that a step of the pod has asked the runtime, or has ended."""
        for event in self._awaited.get(uid, ()):
            event.set()


async def until_asked(asked: asyncio.Event) -> None:
    """Wait for the event, but no longer than :data:`PATIENCE_SECONDS`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asked.wait()
