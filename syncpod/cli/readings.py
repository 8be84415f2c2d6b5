"""A pod and a node as a command has read them: the values that tables, descriptions and waits work on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from syncpod.messages.node import NodeCondition, NodeView
from syncpod.pod import Pod

_SILENT: Final = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}


@dataclass(frozen=True)
class Reading:
    """A pod as it was read."""

    pod: Pod
    wire: dict[str, Any]
    """As the workflow told it; {} where it did not answer."""
    current: bool
    """Whether the workflow has answered; if not, `pod` holds what Temporal last recorded: names, phase, readiness."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.pod.metadata.namespace, self.pod.metadata.name


@dataclass(frozen=True)
class NodeReading:
    """A node as it was read."""

    name: str
    view: NodeView
    """As its workflow told it; while the node is away, what its memo has."""
    current: bool
    """Whether the workflow has answered."""
    heard: datetime | None
    """When the server last heard of its worker; None = never, or the worker has said goodbye."""
    lives: bool
    """Whether that is recent enough."""

    @property
    def conditions(self) -> tuple[NodeCondition, ...]:
        """The node's conditions: those of a node that is not heard of are not known."""
        if self.lives and self.view.conditions:
            return self.view.conditions
        known = self.view.conditions or (NodeCondition(type="Ready"),)
        silent = {"status": "Unknown", "last_transition_time": self.heard, **_SILENT}
        return tuple(each.model_copy(update=silent) for each in known)

    @property
    def ready(self) -> bool:
        """Whether the node is ready for pods, as kubectl says it."""
        return any(each.type == "Ready" and each.status == "True" for each in self.conditions)
