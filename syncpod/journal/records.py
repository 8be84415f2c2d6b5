"""The records of a pod: plain values that its workflow keeps, its queries return and the journal stores.

They cross Temporal as JSON, which `syncpod.messages.queries` reads and writes, so this room needs no pydantic.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final, Literal, NamedTuple

from syncpod.lifecycle.exit import ON_WIRE, Exit

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

NEVER_RAN: Final = ("StartError", "ContainerCannotRun")
"""The reasons that runtimes give for an end if they could not start the process."""


class PodLife(NamedTuple):
    """One life of a pod, from its apply to its deletion. A name may have had several lives."""

    namespace: str
    name: str
    uid: str
    incarnation: str = ""
    """Distinguishes the lives of a static pod, which all have the same UID."""


class Fact(StrEnum):
    """The meaning of a line, for programs. The words of `HistoryEntry.reason` are for people, and may change."""

    MADE = "made"
    """The pod came to its workflow: it was applied for the first time, or adopted."""
    SPEC_CHANGED = "spec changed"
    DELETED = "deleted"
    """The pod must end within a grace period of `HistoryEntry.seconds`."""
    GRACE_SHORTENED = "grace shortened"
    """A later deletion shortened the grace period to `HistoryEntry.seconds`."""
    SUCCESSOR_APPLIED = "successor applied"
    """During the deletion, another pod of the same name was applied. It starts after this one has ended."""
    SUCCESSOR_DROPPED = "successor dropped"
    ASKED = "asked"
    """A person sent the signal that the line is about, and no more specific fact applies."""
    BACK_OFF_ENDED = "back-off ended"
    """A person ended a back-off. The agent's own signal, when something missing has appeared, is not this fact."""
    BACK_OFF_OF_ALL_ENDED = "back-off of all ended"
    """A person ended the common back-off before a restart of all containers, whether or not a container was named."""
    RESTARTS_ALL = "restarts all"
    """The step removes all containers, so that they are started again."""
    STARTUP_SUCCESS = "startup success"
    LIVENESS_SUCCESS = "liveness success"
    READINESS_SUCCESS = "readiness success"
    CRASH_LOOP = "CrashLoopBackOff"
    """A container that has ended waits for its next start. The fact of any other wait is the wait's own reason."""


_BY_A_PERSON: Final = frozenset({Fact.ASKED, Fact.BACK_OFF_ENDED, Fact.BACK_OFF_OF_ALL_ENDED})
"""The facts of signals from outside the node."""


RESTART_OF_ALL: Final = "restart_all_containers"
"""The subject of the wait before a restart of all containers together, which a restart rule demands."""
WORKFLOW: Final = "workflow"
"""The subject of an update that says how the previous workflow ended, if a new one takes over its containers. The line
has no kind of its own, since workers of earlier versions must be able to read it."""


EntryKind = Literal["decision", "step", "signal", "exit", "hold", "update", "rejected", "sender", "workflow"]
"""The subject of a line of a history. A `hold` is a wait. Only the journal has `sender` lines (`SENDER`). A `workflow`
line is the end of a workflow: only the Temporal server has it, and a command adds the line."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of a pod's history: a decision, a step, a signal, an update, an exit or a wait."""

    __pydantic_config__: ClassVar = ON_WIRE

    at: datetime
    kind: EntryKind = "decision"
    """Snapshots of workflows omit fields that have their default, so no default of this class may ever change."""
    subject: str = ""
    """The step's or signal's name, or the container's."""
    container: str = ""
    """The container that a step is about; "" if it is about the whole pod."""
    restart: int = 0
    """The number of the instance that has ended; 0 if the line is not about an exit. Ends are listed in the order in
    which they become known."""
    reason: str = ""
    """The reason, in words for people."""
    outcome: str = ""
    attempt: int = 0
    """How many times Temporal tried the step; 0 if the line is not about a step."""
    took_ms: int = 0
    """Milliseconds of workflow time from scheduling to result; 0 if the line is not about a step."""
    fact: str = ""
    """A `Fact`, the reason of a wait, or the `KillCause` of an exit; "" = the line has only words for people."""
    seconds: float | None = None
    """The delay of a back-off, or a grace period; None = the fact has no duration, or the wait has no end."""

    @property
    def is_command(self) -> bool:
        """Whether the line is a command from outside the node, other than the creation of the pod."""
        if self.kind == "update":
            return self.fact != Fact.MADE and self.subject != WORKFLOW
        return self.kind == "signal" and self.fact in _BY_A_PERSON


EventType = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """One event of a pod, a node or a workload in the kubelet's words; repeats are counted."""

    __pydantic_config__: ClassVar = ON_WIRE

    type: EventType = "Normal"
    """Snapshots of workflows omit fields that have their default, so no default of this class may ever change."""
    reason: str = ""
    message: str = ""
    container: str = ""
    count: int = 1
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a container: one start, and perhaps its end."""

    container: str
    restart: int
    """Its number, from 0."""
    id: str = ""
    """Its id in the runtime."""
    image: str = ""
    """The image as the runtime names it; "" = not known any more."""
    started_at: datetime | None = None
    """When it started, by the node's clock; None if the runtime did not report it."""
    exit: Exit | None = None
    """How it ended; None while it runs, or if that is not recorded."""
    log_end: str = ""
    """The last KiB of its log, without the runtime's prefixes."""

    @property
    def has_ended(self) -> bool:
        """Whether its end is recorded."""
        return self.exit is not None

    @property
    def ended_at(self) -> datetime | None:
        """When it ended; None while it runs, or if that is not known."""
        return (self.exit.finished_at or self.exit.at) if self.exit is not None else None

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None until it has ended."""
        return self.exit.exit_code if self.exit is not None else None

    @property
    def reason(self) -> str:
        """The runtime's reason for its end: `Completed`, `Error`, `OOMKilled`, ...; "" until it has ended."""
        return self.exit.reason if self.exit is not None else ""

    @property
    def message(self) -> str:
        """The message of its end."""
        return self.exit.message if self.exit is not None else ""

    @property
    def cause(self) -> str:
        """Why the node ended it, in words; "" = it ended by itself, or runs."""
        return self.exit.cause if self.exit is not None else ""

    @property
    def killed_by(self) -> str:
        """The `KillCause`: why the node ended it, for programs; "" = it ended by itself, or runs."""
        return self.exit.killed_by if self.exit is not None else ""

    @property
    def never_ran(self) -> bool:
        """Whether it could not be started, so that it has neither run nor logged."""
        return self.started_at is None and self.reason in NEVER_RAN

    @property
    def signal(self) -> int:
        """The number of the signal that its exit code stands for; 0 = none."""
        return self.exit_code - 128 if self.exit_code is not None and 128 < self.exit_code <= 192 else 0

    @property
    def ran_for(self) -> timedelta | None:
        """How long it ran; None if that is not known."""
        if self.started_at is None or self.ended_at is None:
            return None
        return max(timedelta(0), self.ended_at - self.started_at)


class Service(NamedTuple):
    """A time in which one worker served the node."""

    begun: datetime
    ended: datetime | None
    """When it ended; None if no end is recorded, so that it may still go on."""
    how: str = ""
    """How it ended: `stopped`, `died`, or `machine` if the machine was rebooted meanwhile; "" = not known."""


SERVER_AWAY: Final = "server"
"""In `Absence.how`: a worker ran, and the Temporal server did not answer it."""
SERVER_UNREACHABLE: Final[tuple[EventType, str, str]] = (
    "Warning",
    "ServerUnreachable",
    "The Temporal server does not answer: containers run on, and nothing is started or changed until it does",
)
SERVER_REACHABLE: Final[tuple[EventType, str, str]] = (
    "Normal",
    "ServerReachable",
    "The Temporal server answers again",
)
"""Type, reason and message of two events of a node: its Temporal server went away, and it is back."""


class Absence(NamedTuple):
    """A time in which no worker served the node, or its Temporal server did not answer."""

    begun: datetime
    ended: datetime
    how: str
    """How the worker before it ended, as in `Service.how`, or `SERVER_AWAY`."""

    @property
    def lacks(self) -> str:
        """The part that the node lacked."""
        return "Temporal server" if self.how == SERVER_AWAY else "worker"

    def of(self, begun: datetime, ended: datetime) -> timedelta:
        """Return how much of the time between two moments this absence covers."""
        return max(timedelta(0), min(self.ended, ended) - max(self.begun, begun))


SENDER: Final[Literal["sender"]] = "sender"
"""The kind of a line that names the sender of a message. The line about the message has the same time and subject."""


@dataclass(frozen=True)
class TaskRecords:
    """The records that a pod's workflow writes at the end of one of its tasks."""

    life: PodLife
    at: datetime
    """The workflow's time at that moment."""
    entries: tuple[HistoryEntry, ...] = ()
    events: tuple[EventRecord, ...] = ()
    instances: tuple[Instance, ...] = ()
    present: str = ""
    """The pod's present state, as JSON: ``phase``, ``containers``, ``waits``, ... (`workflows/pod/journaled.py`)."""
    is_gone: bool = False
    """True if nothing of the pod is left on the node."""


def due_of(entry: HistoryEntry) -> datetime | None:
    """Return when a line's `seconds` are over; None if it has none, or if that is beyond the calendar."""
    try:
        return entry.at + timedelta(seconds=entry.seconds) if entry.seconds is not None else None
    except OverflowError:
        return None


def microseconds(at: datetime) -> int:
    """Return a moment as the file stores it: microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def moment(number: int) -> datetime:
    """Return the moment that the file stores as a number of microseconds."""
    return _EPOCH + timedelta(microseconds=number)
