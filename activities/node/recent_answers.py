"""Answers of the runtime that are cached for a moment, so that a crowd of pods causes one request."""

from __future__ import annotations

from typing import Final

from activities.node.clock import monotonic
from activities.node.pulls import Pulls
from syncpod.cri import CriRuntime
from syncpod.cri.port import ImageStatus, RuntimeStatus

FRESH_SECONDS: Final = 1.0
"""How long an answer is cached, counted from the request.

The kubelet too checks only every five seconds whether the runtime is ready, and not for each pod (kubelet.go, v1.36,
updateRuntimeUp). If an image has been removed within that second, the runtime refuses to create a container from it,
and the image is pulled."""
_REMEMBERED: Final = 100
"""The most images whose status is cached."""


class Readiness:
    """Caches the runtime's status for a moment, if the runtime and its network are ready."""

    def __init__(self, cri: CriRuntime) -> None:
        """Send requests to `cri`."""
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
    """Caches for a moment the status of images that the runtime has. A missing image is not cached."""

    def __init__(self, cri: CriRuntime, pulls: Pulls) -> None:
        """Send requests to `cri`.

        Each end of a pull voids the cache, since the pull may have brought another image of a name.
        """
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
