"""Which images the node has, asked once for a crowd of pods that need the same ones."""

from __future__ import annotations

from typing import Final

from activities.node.clock import monotonic
from activities.node.pulls import Pulls
from syncpod.cri import CriRuntime
from syncpod.cri.port import ImageStatus

FRESH_SECONDS: Final = 1.0
"""How long after it was asked for an answer counts. If the image has been removed by then, the runtime refuses to make
a container of it, and it is pulled."""
_REMEMBERED: Final = 100


class KnownImages:
    """Remembers for a moment the images that the runtime has; that it lacks one is asked again each time."""

    def __init__(self, cri: CriRuntime, pulls: Pulls) -> None:
        """Ask `cri`, and ask again once one of `pulls` has ended: it may have brought another image of that name."""
        self._cri, self._pulls = cri, pulls
        self._known: dict[str, tuple[float, int, ImageStatus]] = {}

    async def status(self, reference: str) -> ImageStatus | None:
        """Return an image's status, at most :data:`FRESH_SECONDS` old; None if the node lacks it. Raises CriError."""
        now, ended = monotonic(), self._pulls.ended
        until, pulls, known = self._known.get(reference, (0.0, 0, None))
        if known is not None and now < until and pulls == ended:
            return known
        self._known.pop(reference, None)
        found = await self._cri.image_status(reference)
        if found is not None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[reference] = (now + FRESH_SECONDS, ended, found)
        return found
