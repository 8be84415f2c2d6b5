"""The answer of a pod's workflow to an apply."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

_WIRE: Final = ConfigDict(frozen=True, extra="ignore")


class Change(StrEnum):
    """The result of an apply, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    FOLLOWS = "follows the one that is being deleted"


class AppliedPod(BaseModel):
    """The pod that an apply has reached, and the result for it."""

    model_config = _WIRE

    uid: str = ""
    """If the applied pod follows another one: the UID of the one that is being deleted."""
    generation: int | None = None
    change: Change = Change.CONFIGURED
    """A worker of an older build does not say it."""
    node: str = ""
    """The node that has the pod, which may be another one than the apply has named."""

    def on_wire(self) -> dict[str, Any]:
        """Return the answer as the update returns it."""
        return self.model_dump(mode="json")
