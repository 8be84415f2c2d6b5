"""Makes the node's own events for the API server: its worker's start, and changes of its conditions and its Node.

Mirrors pkg/kubelet/kubelet.go, v1.36, Run, and nodestatus/setters.go: a starting node has an event for each kind of
pressure that it does not have, and an event when it becomes Ready.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from syncpod.agent.kubernetes.event_writer import EventWriter
from syncpod.kubernetes import node_changes
from syncpod.kubernetes.events import Event, node_subject
from syncpod.kubernetes.node_changes import NodeChange
from syncpod.messages.node import NodeStatus


class NodeEvents:
    """The events of one node. All methods belong to one event loop."""

    def __init__(self, writer: EventWriter, name: str, status: Callable[[], Awaitable[NodeStatus]]) -> None:
        """Pass the events of the node `name` to `writer`; `status` returns the node's own status."""
        self._writer, self._name, self._status = writer, name, status
        self._before: Mapping[str, str] = {}
        self._seen: Mapping[str, Any] = {}
        self._last = datetime.min.replace(tzinfo=UTC)
        """The time of the last event."""

    def starting(self, *, has_cgroup_v1: bool, limits_pods: bool) -> None:
        """Report that the node's worker starts. With `limits_pods`, also report that all pods share one limit."""
        self._write(node_changes.starting(has_cgroup_v1=has_cgroup_v1, limits_pods=limits_pods))

    def shutdown(self, begins: bool) -> None:
        """Report that the machine shuts down, or that the shutdown was called off."""
        self._write(node_changes.shutdown(begins=begins))

    def server(self, answers: bool) -> None:
        """Report that the node's Temporal server does not answer, or answers again."""
        self._write(node_changes.server(answers=answers))

    async def status(self) -> NodeStatus:
        """Return the node's own status, and report changes of its pressure conditions since the last call."""
        status = await self._status()
        now = {each.type: each.status for each in status.conditions}
        self._write(node_changes.pressures(self._name, self._before, now))
        self._before = now
        return status

    def written(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Take a change that the node has made to its own Node object."""
        self._write(node_changes.written(self._name, before, after))

    def seen(self, node: Mapping[str, Any]) -> None:
        """Take the cluster's current Node."""
        self._write(node_changes.scheduling(self._name, self._seen, node))
        self._seen = node

    def _write(self, changes: Sequence[NodeChange]) -> None:
        for each in changes:
            # An event's name is made from its time, so two events must not have the same time.
            at = self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
            self._writer.take(Event(node_subject(self._name), each.type, each.reason, each.message, at, at))
