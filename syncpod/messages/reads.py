"""The ports for reads: the results of the queries of a pod's or a node's workflow."""

from typing import Any, Protocol


class PodReads(Protocol):
    """Answers the queries of one pod from one state. The state never changes, and may be read in any thread."""

    def pod(self) -> dict[str, Any]:
        """Return the whole Pod with its status; empty for a node."""

    def plan(self, candidate: Any = None, update: str = "apply") -> dict[str, Any]:
        """Return the steps that would be taken now, or after the update `update` with `candidate`."""

    def history(self) -> list[dict[str, Any]]:
        """Return each decision, step, signal and exit, oldest first."""

    def events(self) -> list[dict[str, Any]]:
        """Return the pod's events, oldest first."""

    def steps(self) -> list[str]:
        """Return the names of the steps that have been scheduled and have not ended."""


class NodeReads(Protocol):
    """Answers the query of a node from one state. The state never changes, and may be read in any thread."""

    def node(self) -> dict[str, Any]:
        """Return the whole node (:class:`syncpod.messages.node.NodeView`); empty for a pod."""
