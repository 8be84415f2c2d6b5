"""The port of this room to a pod's newest state."""

from __future__ import annotations

from typing import Any, Protocol


class NewestPod(Protocol):
    """A pod's newest state: `syncpod.temporal.workflow_watch.Published`."""

    @property
    def uid(self) -> str:
        """The pod's UID."""

    def pod(self) -> dict[str, Any]:
        """Return the whole Pod with its status."""
