"""The core/v1 Events that a node writes, as the kubelet's recorder makes them. Values in, values out.

Mirrors client-go's tools/record/event.go (v0.36), makeEvent. Difference: the name comes from the time at which the
event happened first, and not from the time of the write. So a new worker, which has no record of the earlier worker's
events, writes the same Event again, and not a second one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

COMPONENT: Final = "kubelet"
"""The source component of a node's events, by which programs select them."""
NODE_NAMESPACE: Final = "default"
"""The namespace of events about a node, which has no namespace itself."""
_LONGEST_NAME: Final = 253
_LONGEST_MESSAGE: Final = 1024
"""Maximum characters of a message that an API server accepts (validation/events.go, NoteLengthLimit)."""


@dataclass(frozen=True)
class Subject:
    """The object that an event is about."""

    kind: str
    namespace: str
    """The object's namespace; "" for a node."""
    name: str
    uid: str
    field_path: str = ""
    """The container, as ``spec.containers{app}``; "" = the whole object."""


@dataclass(frozen=True)
class Event:
    """An Event as it is written to the API server."""

    subject: Subject
    type: str
    reason: str
    message: str
    first: datetime
    last: datetime
    count: int = 1

    @property
    def namespace(self) -> str:
        """The namespace that the Event is in."""
        return self.subject.namespace or NODE_NAMESPACE

    @property
    def name(self) -> str:
        """The Event's name: its object's name, and the time at which it happened first, in nanoseconds."""
        suffix = f".{_nanoseconds(self.first):x}"
        return f"{self.subject.name[: _LONGEST_NAME - len(suffix)].rstrip('.-')}{suffix}"


def node_subject(name: str) -> Subject:
    """Return a node as the subject of its own events, with its name as the UID.

    ``kubectl describe node`` selects events by this UID. A kubelet 1.36 gives its events no UID, so `describe` does not
    show them.
    """
    return Subject(kind="Node", namespace="", name=name, uid=name)


def event_document(event: Event, node: str) -> dict[str, Any]:
    """Return the v1 Event of a node."""
    about = event.subject
    involved = {
        "apiVersion": "v1",
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
        "fieldPath": about.field_path,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event.name, "namespace": event.namespace},
        "involvedObject": {name: value for name, value in involved.items() if value},
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
        "type": event.type,
        "reason": event.reason,
        "firstTimestamp": _stamp(event.first),
        **event_patch(event),
    }


def event_patch(event: Event) -> dict[str, Any]:
    """Return the merge patch of an Event that has happened again."""
    return {"message": _cut(event.message), "count": event.count, "lastTimestamp": _stamp(event.last)}


def _cut(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 1]}…"


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000
