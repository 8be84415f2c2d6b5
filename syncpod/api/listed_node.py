"""A node as lists and descriptions show it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from syncpod.messages.node import NodeCondition, NodeView
from syncpod.node.loop_stalls import LoopStall

_SILENT: Final = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}


@dataclass(frozen=True)
class ListedNode:
    """A node as it is shown."""

    name: str
    view: NodeView
    """The answer of its workflow; without an answer, the workflow's memo and this machine's record (`is_told`)."""
    current: bool
    """Whether the workflow answered."""
    heard: datetime | None
    """When its worker last gave a sign of life; None if no sign is recorded."""
    lives: bool
    """Whether `heard` is recent enough for the worker to count as alive. A live worker may be too busy to answer."""
    is_told: bool = False
    """If the workflow did not answer: whether `view` has the status and events that this machine recorded."""
    stall: LoopStall | None = None
    """The newest stall of its worker's event loop, if it is this machine's node; None = no stall is known."""

    @property
    def conditions(self) -> tuple[NodeCondition, ...]:
        """The node's conditions. If its worker is dead, all are Unknown, and Ready is always among them.

        If a live worker does not answer, they are the conditions that this machine recorded; () = none are recorded.
        """
        if self.lives:
            return self.view.conditions
        known = self.view.conditions or (NodeCondition(type="Ready"),)
        silent = {"status": "Unknown", "last_transition_time": self.heard, **_SILENT}
        return tuple(each.model_copy(update=silent) for each in known)

    @property
    def ready(self) -> bool:
        """Whether the node is Ready, as kubectl shows it."""
        return any(each.type == "Ready" and each.status == "True" for each in self.conditions)
