"""Whether the node's runtime can make sandboxes, asked once for a crowd of pods."""

from __future__ import annotations

from typing import Final

from activities.node.clock import monotonic
from syncpod.cri import CriRuntime
from syncpod.cri.port import RuntimeStatus

FRESH_SECONDS: Final = 1.0
"""How long after it was asked for an answer counts. The kubelet asks each five seconds, and not for each pod
(kubelet.go, v1.36, updateRuntimeUp)."""


class Readiness:
    """Remembers for a moment that the runtime and its network are ready; that they are not is asked again each time."""

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
