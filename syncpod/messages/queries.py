"""The data that workflows show: a pod's search attributes and summary, its history as JSON, and events as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, TypeAdapter, WrapSerializer

from syncpod.journal.records import EventRecord, HistoryEntry
from syncpod.lifecycle.exit import Exit
from syncpod.messages.identity import Message
from syncpod.pod.wire import foreign_text, shortened

SEARCH_ATTRIBUTES: dict[str, str] = {
    "PodNamespace": "Keyword",
    "PodName": "Keyword",
    "PodUID": "Keyword",
    "PodPhase": "Keyword",
    "NodeName": "Keyword",
    "PodReady": "Bool",
    "PodStatus": "Keyword",
    "PodRestarts": "Int",
    "PodLabels": "KeywordList",
}
"""Search attributes of a pod's workflow and their types, registered by the worker before it polls. `PodStatus` and
`PodRestarts` are the columns STATUS and RESTARTS of ``get pods``."""

POD_STATUS_LIMIT = 255
"""The most characters of PodStatus: PostgreSQL and MySQL schemas of Temporal hold a keyword in VARCHAR(255)."""

POD_LABELS_LIMIT = 1536
"""The most bytes of ``k=v`` strings in PodLabels: the server terminates a workflow whose attribute exceeds 2,048."""

LONGEST_TEXT: Final = 1024
"""How many characters of a message are kept, as in the API server's events: a snapshot has a few hundred messages."""
LONGEST_TEXT_BYTES: Final = 2048
"""How many bytes of JSON a message may take. A control character takes six and an emoji twelve, and a probe may print a
thousand of them each second."""


def clipped(text: str) -> str:
    """Cut a pod's message, for its events, to :data:`LONGEST_TEXT` and :data:`LONGEST_TEXT_BYTES`."""
    return shortened(text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…", LONGEST_TEXT_BYTES)


def status_attribute(word: str) -> str:
    """Return a pod's printed status, cut for PodStatus: the reason of an eviction may be of any length."""
    return word[:POD_STATUS_LIMIT]


def labels_attribute(labels: dict[str, str]) -> list[str]:
    """Return ``k=v`` for each label in order of key, as many as fit into :data:`POD_LABELS_LIMIT` bytes."""
    kept: list[str] = []
    room = POD_LABELS_LIMIT
    for key in sorted(labels):
        text = f"{key}={labels[key]}"
        room -= len(text.encode()) + 4
        if room < 0:
            break
        kept.append(text)
    return kept


def _write_event(event: EventRecord, write: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
    written: dict[str, Any] = write(event)
    return {**written, "message": foreign_text(event.message, info)}


WireEvent = Annotated[EventRecord, WrapSerializer(_write_event)]
"""An event as a message carries it; its text may quote a container (`syncpod.pod.wire.ForeignText`)."""


def _write_exit(exit_: Exit, write: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
    written: dict[str, Any] = write(exit_)
    return {**written, "message": foreign_text(exit_.message, info)} if exit_.message else written


WireExit = Annotated[Exit, WrapSerializer(_write_exit)]
"""An exit as a message carries it; its text may quote a container too."""

_EVENT: Final[TypeAdapter[EventRecord]] = TypeAdapter(WireEvent)
_ENTRY: Final = TypeAdapter(HistoryEntry)


def read_events(answer: Iterable[Any]) -> list[EventRecord]:
    """Return the events in the answer of a query. Raises ValidationError."""
    return [_EVENT.validate_python(each) for each in answer]


def write_events(events: Iterable[EventRecord]) -> list[dict[str, Any]]:
    """Return events in the form that a query returns."""
    return [_EVENT.dump_python(each, mode="json") for each in events]


def read_history(answer: Iterable[Any]) -> list[HistoryEntry]:
    """Return the entries of a pod's history in the answer of a query. Raises ValidationError."""
    return [_ENTRY.validate_python(each) for each in answer]


def write_history(entries: Iterable[HistoryEntry]) -> list[dict[str, Any]]:
    """Return entries of a pod's history in the form that a query returns."""
    return [_ENTRY.dump_python(each, mode="json") for each in entries]


FORESEE_ADMISSION: Final = "foresee_admission"
"""The activity that a client starts by itself on a node's task queue, to find out whether the node would run a pod.

It takes a v1 Pod and a list of `ComesBefore`, and returns a sentence for each reason why not."""


class ComesBefore(Message):
    """The requests and ports of a pod that will run on the node before the pod in question."""

    amounts: dict[str, int] = Field(default_factory=dict)
    """Its requests by resource; cpu in millicores, everything else in its own unit."""
    ports: tuple[tuple[str, str, int], ...] = ()
    """Address, protocol and number of each port of the node that it takes."""


@dataclass(frozen=True)
class PodSummary:
    """One pod, in one line."""

    pod: str
    """``namespace/name``."""
    status: str
    """The status as ``get pods`` prints it: ``CrashLoopBackOff``, ``Init:1/2``."""
    restarts: int
    why: str
    """The reason of its wait, else why it is not ready; "" if neither is known."""
