"""Tells the API server what happens to the node: its worker's start, and changes of its conditions.

Mirrors pkg/kubelet/kubelet.go, v1.36, Run, and nodestatus/setters.go: a node that starts tells that it has enough of
everything, and is told to be Ready once it has not been.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from syncpod.agent.kubernetes.event_writer import EventWriter
from syncpod.kubernetes.events import Event, node_subject
from syncpod.kubernetes.node_changes import changes
from syncpod.messages.node import NodeStatus


class NodeEvents:
    """The events of one node. All methods belong to one event loop."""

    def __init__(self, writer: EventWriter, name: str, status: Callable[[], Awaitable[NodeStatus]]) -> None:
        """Give the events of the node `name` to `writer`; `status` returns the node's own status."""
        self._writer, self._name, self._status = writer, name, status
        self._before: Mapping[str, str] = {}

    def starting(self) -> None:
        """Tell that the node's worker starts."""
        self._tell("Starting", "Starting kubelet.")

    async def status(self) -> NodeStatus:
        """Return the node's own status, and tell what has changed in it since the last one."""
        status = await self._status()
        now = {each.type: each.status for each in status.conditions}
        for reason in changes(self._before, now):
            self._tell(reason, f"Node {self._name} status is now: {reason}")
        self._before = now
        return status

    def _tell(self, reason: str, message: str) -> None:
        at = datetime.now(UTC)
        self._writer.take(Event(node_subject(self._name), "Normal", reason, message, at, at))
