"""What a pod's workflow shows: its search attributes, its events and its history."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from syncpod.messages.identity import Message
from syncpod.pod.wire import ForeignText

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
"""Characters of PodStatus: PostgreSQL and MySQL schemas of Temporal hold a keyword in VARCHAR(255)."""

POD_LABELS_LIMIT = 1536
"""How many bytes of ``k=v`` strings PodLabels has: the server terminates a workflow whose attribute exceeds 2,048."""


def status_attribute(word: str) -> str:
    """Return a pod's printed status as PodStatus: a reason of whoever evicts a pod may be of any length."""
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


class EventRecord(Message):
    """One event as the kubelet's; repeated events are counted."""

    type: Literal["Normal", "Warning"] = "Normal"
    reason: str = ""
    message: ForeignText = ""
    container: str = ""
    count: int = 1
    first: datetime | None = None
    last: datetime | None = None


class HistoryRecord(Message):
    """One line of ``syncpod history``: a decision, a step, a signal or an exit, with its time and reason."""

    at: datetime | None = None
    kind: Literal["decision", "step", "signal", "exit", "hold", "update", "rejected"] = "decision"
    subject: str = ""
    """The step's or signal's name, or the container's."""
    container: str = ""
    """The container that a step is about; "" if it is about the whole pod."""
    restart: int = 0
    """The number of the instance that has ended; 0 if the line is not about an exit. Ends are told in the order in
    which they become known."""
    reason: str = ""
    outcome: str = ""
    attempt: int = 0
    """How many times Temporal tried the step; 0 if the line is not about a step."""
    took_ms: int = 0
    """Milliseconds of workflow time from scheduling to result; 0 if the line is not about a step."""
    fact: str = ""
    """A :class:`syncpod.journal.records.Fact`, for programs; `reason` has words for people."""
    seconds: float | None = None
    """The delay of a back-off, or a grace period; None = there is none."""


FORESEE_ADMISSION: Final = "foresee_admission"
"""The activity that a client starts by itself on a node's task queue, to ask whether the node would run a pod.

It takes a v1 Pod and a list of `ComesBefore`, and returns a sentence for each reason why not."""


class ComesBefore(Message):
    """What a pod takes of a node on which it is to run before the one that is asked about."""

    amounts: dict[str, int] = Field(default_factory=dict)
    """Its requests by resource; cpu in millicores, everything else in its own unit."""
    ports: tuple[tuple[str, str, int], ...] = ()
    """Address, protocol and number of each port of the node that it takes."""
