"""The node's pressure conditions: the evictor measures them, and steps look at them before they admit a pod."""

from __future__ import annotations

from syncpod.lifecycle.eviction import NodeCondition, admission_refusal
from syncpod.pod import Pod


class NodePressure:
    """The newest pressure conditions of one node; none before the first measurement."""

    def __init__(self) -> None:
        self.conditions: tuple[NodeCondition, ...] = ()

    def measured(self, conditions: tuple[NodeCondition, ...]) -> None:
        """Take the conditions that are True now."""
        self.conditions = conditions

    def admission_refusal(self, pod: Pod) -> str:
        """Return why the node does not admit the pod now, in the kubelet's words; "" if it admits it."""
        return admission_refusal(pod, self.conditions)
