"""Events as rows of tables, and as the Event objects of Kubernetes' API.

Mirrors kubectl's pkg/cmd/events, v1.36, and for ``-o wide`` pkg/printers/internalversion/printers.go, printEvent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from syncpod.api.views.durations import age
from syncpod.journal.reading import NoJournal, events_of_gone
from syncpod.journal.records import EventRecord

HEADER: Final = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
WIDE: Final = (
    "LAST SEEN",
    "TYPE",
    "REASON",
    "OBJECT",
    "SUBOBJECT",
    "SOURCE",
    "MESSAGE",
    "FIRST SEEN",
    "COUNT",
    "NAME",
)
_SOURCE: Final = "syncpod"
KEPT: Final = timedelta(hours=1)
"""How long a kube-apiserver keeps an event (--event-ttl)."""


@dataclass(frozen=True)
class PodEvent:
    """One event of a pod."""

    namespace: str
    pod: str
    uid: str
    node: str
    field_path: str
    """The container that it is about, as ``spec.containers{app}``; "" = the whole pod, or not known."""
    record: EventRecord
    is_gone: bool = False
    """Whether the pod is gone: another one may have its name now."""

    @property
    def key(self) -> tuple[str, ...]:
        """The common part of all repetitions of the event."""
        record = self.record
        return self.namespace, self.pod, self.uid, record.type, record.reason, record.message, record.container

    @property
    def name(self) -> str:
        """The Event's name: the same for all repetitions."""
        digest = hashlib.blake2b("\0".join(self.key).encode(), digest_size=8).hexdigest()
        return f"{self.pod}.{digest}"

    @property
    def last(self) -> datetime:
        """When it was seen last."""
        return self.record.last


def by_time(events: Sequence[PodEvent]) -> list[PodEvent]:
    """Sort events, the newest last. Events of the same time stay in their order."""
    return sorted(events, key=lambda event: event.last)


def document(event: PodEvent) -> dict[str, Any]:
    """Return a v1 Event."""
    record = event.record
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": event.namespace, "name": event.pod, "uid": event.uid}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event.name, "namespace": event.namespace, "creationTimestamp": _stamp(record.first)},
        "involvedObject": about | ({"fieldPath": event.field_path} if event.field_path else {}),
        "reason": record.reason,
        "message": record.message,
        "source": {"component": _SOURCE, "host": event.node},
        "firstTimestamp": _stamp(record.first),
        "lastTimestamp": _stamp(record.last),
        "count": record.count,
        "type": record.type,
        "eventTime": None,
        "reportingComponent": _SOURCE,
        "reportingInstance": event.node,
    }


def cells_of(event: PodEvent, now: datetime, *, wide: bool) -> tuple[str, ...]:
    """Return the cells of an event's row, in the columns :data:`WIDE` or :data:`HEADER`."""
    record = event.record
    message = " ".join(record.message.split())
    gone = " (gone)" if event.is_gone else ""
    of_which = ", ".join(part for part in (record.container, "gone" if event.is_gone else "") if part)
    if wide:
        return (
            _seen(record, now),
            record.type,
            record.reason,
            f"pod/{event.pod}{gone}",
            event.field_path,
            f"{_SOURCE}, {event.node}" if event.node else _SOURCE,
            message,
            age(record.first, now),
            str(record.count),
            event.name,
        )
    about = f"Pod/{event.pod}{f' ({of_which})' if of_which else ''}"
    return _seen(record, now), record.type, record.reason, about, message


def _seen(record: EventRecord, now: datetime) -> str:
    seen = age(record.last, now)
    return f"{seen} (x{record.count} over {age(record.first, now)})" if record.count > 1 else seen


def _stamp(at: datetime | None) -> str | None:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else None


def events_of(pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> list[PodEvent]:
    """Return the events of a pod from the JSON of both. Raises KeyError, TypeError, ValueError for other JSON.

    It does not use the models, whose import takes longer than the rest of a command.
    """
    paths, metadata = field_paths(pod), pod["metadata"]
    return [
        PodEvent(
            namespace=metadata.get("namespace", ""),
            pod=metadata["name"],
            uid=metadata.get("uid", ""),
            node=pod["spec"].get("nodeName", ""),
            field_path=paths.get(each["container"], ""),
            record=EventRecord(
                first=datetime.fromisoformat(each["first"]),
                last=datetime.fromisoformat(each["last"]),
                **{part: each[part] for part in ("type", "reason", "message", "container", "count")},
            ),
        )
        for each in events
    ]


def gone_events(
    state_dir: Path, node: str, present: Sequence[PodEvent], namespace: str | None, now: datetime
) -> list[PodEvent]:
    """Return the last hour's events of pods that are gone from a node, from its journal. Blocks.

    Events that are also in `present` are left out. `namespace` None = all. Without a journal the result is empty.
    """
    try:
        found = events_of_gone(state_dir, now - KEPT, namespace)
    except NoJournal:
        return []
    known = {event.key for event in present}
    gone = [
        PodEvent(life.namespace, life.name, life.uid, node, "", happening, is_gone=True) for life, happening in found
    ]
    return [event for event in gone if event.key not in known]


def field_paths(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return each container's field path as in an Event: ``spec.containers{app}``."""
    kinds = ("initContainers", "containers", "ephemeralContainers")
    spec = pod.get("spec", {})
    return {each["name"]: f"spec.{kind}{{{each['name']}}}" for kind in kinds for each in spec.get(kind, ())}
