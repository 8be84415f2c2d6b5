"""The state that a node's workflow publishes at the end of a task.

If the workflow cannot go on, a new run starts from this state.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from syncpod.pod import ObjectMeta
from workflows.entity import next_input
from workflows.node import report
from workflows.node.state import NodeState


@dataclass(frozen=True)
class PublishedNode:
    """A node's state at one moment. Nothing changes it, so any thread may read it."""

    state: NodeState
    at: datetime
    """The workflow's time at that moment."""
    history_length: int = 0
    """The id of the newest event of the run's history that the state includes."""
    uid: Final = ""
    """Always "": a node has no UID."""
    is_gone: Final = False
    """Always False: the workflow of a node does not end by itself."""
    is_unready: Final = False
    """Always False: a node is no pod."""
    incarnation: Final = ""
    is_followed: Final = False
    """Always False: no other node begins in its place."""
    replacing: tuple[str, ...] = ()
    """Always none: a node is no pod."""
    ended_life: None = None
    """Always None: a node is no pod."""

    @property
    def metadata(self) -> ObjectMeta:
        """Empty: a node is no pod."""
        return ObjectMeta()

    def summary(self) -> None:
        """Return None: a node is no pod."""

    def journal_records(self, since: datetime | None) -> None:
        """Return None: the journal keeps nothing of the node's own workflow."""

    def pod(self) -> dict[str, Any]:
        """Return nothing: a node is no pod."""
        return {}

    def plan(self, candidate: Any = None, update: str = "apply") -> dict[str, Any]:
        """Return nothing: a node is no pod."""
        return {}

    def history(self) -> list[dict[str, Any]]:
        """Return nothing: a node is no pod."""
        return []

    def events(self) -> list[dict[str, Any]]:
        """Return nothing: the events of a node are in its view."""
        return []

    def steps(self) -> list[str]:
        """Return nothing: a node is no pod."""
        return []

    def next_input(self) -> dict[str, Any]:
        """Return the input of a run that goes on from here, as JSON."""
        return next_input(self.state)

    def node(self) -> dict[str, Any]:
        """Return the whole node (:class:`syncpod.messages.node.NodeView`)."""
        return report.view(self.state, self.at).model_dump(mode="json", by_alias=True)
