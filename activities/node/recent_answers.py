"""Answers of the runtime that count for a moment, so that a crowd of pods asks it once."""

from __future__ import annotations

from typing import Final

from activities.node.clock import monotonic
from activities.node.pulls import Pulls
from syncpod.cri import CriRuntime
from syncpod.cri.port import ImageStatus, RuntimeStatus

FRESH_SECONDS: Final = 1.0
"""How long after the question an answer counts.

The kubelet asks each five seconds whether the runtime is ready, and not for each pod (kubelet.go, v1.36,
updateRuntimeUp). If an image has been removed within that second, the runtime refuses to make a container of it, and it
is pulled."""
_REMEMBERED: Final = 100
"""Images whose status is kept at most."""


class Readiness:
    """Remembers for a moment that the runtime and its network are ready; if not, it is asked again each time."""

    def __init__(self, cri: CriRuntime) -> None:
        """Ask `cri`."""
        self._cri = cri
        self._ready: RuntimeStatus | None = None
        self._until = 0.0

    async def status(self) -> RuntimeStatus:
        """Return the runtime's status, at most :data:`FRESH_SECONDS` old. Raises CriError."""
        now = monotonic()
        if self._ready is not None and now < self._until:
            return self._ready
        self._ready = None
        status = await self._cri.status()
        if status.runtime_ready and status.network_ready:
            self._ready, self._until = status, now + FRESH_SECONDS
        return status


class KnownImages:
    """Remembers for a moment the images that the runtime has; a missing one is asked for again each time."""

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
