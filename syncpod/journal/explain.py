"""The state of one life of a pod at a moment, now or in the past: pure, from its records in the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from syncpod.journal.causes import End, OutsideChange, changes_of, ends_of, failed_hooks
from syncpod.journal.reading import LifeRecords
from syncpod.journal.records import Absence, Fact, HistoryEntry, Instance, due_of

_NO_TIME: Final = timedelta(0)
_NOT_ENDED: Final = ("ExceededGracePeriod", "FailedKillPod")
"""The reasons why a step that ends something is tried again, in the words of the pod's workflow."""


@dataclass(frozen=True)
class Wait:
    """Something that a container or a step waits for: a moment, or an operator."""

    subject: str
    """The container, or the step."""
    until: datetime | None
    """When the wait ends; None = only an operator can end it."""
    reason: str
    message: str

    @property
    def is_of_a_kill(self) -> bool:
        """Whether the wait precedes another kill of something that has not ended, and not a start."""
        return self.reason in _NOT_ENDED


@dataclass(frozen=True)
class StepUnderWay:
    """A step that has begun and not ended."""

    what: str
    """The step's action and its reason, such as `start app: first start`."""
    since: datetime | None
    step: str = ""
    """The step's name, such as `start_container`."""
    container: str = ""
    doing: str = ""
    """The step's own description at this moment, such as `waits for other pulls to pull web:1`; "" = not known."""


@dataclass(frozen=True)
class Explained:
    """One container at a moment, and its past."""

    name: str
    instances: tuple[Instance, ...]
    ends: tuple[End, ...]
    wait: Wait | None
    """The wait before its next start; None = there is none."""
    is_ready: bool | None
    """Whether it is ready; None = not known for that moment."""
    waiting: str
    """The reason and message of the state `waiting` in its status; "" = it is in another state, or has no status."""
    is_init: bool = False
    last_end: End | None = None
    """Its newest end, even one from before the records that the explanation covers."""
    restarts: int = 0
    """The number of its restarts, by its status; 0 if it has none at that moment."""

    @property
    def newest(self) -> Instance | None:
        """Its newest instance; None if it never ran."""
        return self.instances[-1] if self.instances else None

    @property
    def why_not(self) -> str:
        """Why it does not start, apart from a back-off after its last end; "" if it runs, or no reason is known."""
        if self.runs or self.waiting.startswith(Fact.CRASH_LOOP):
            return ""
        if self.waiting or self.wait is None or self.wait.reason == Fact.CRASH_LOOP:
            return self.waiting
        return f"{self.wait.reason}: {self.wait.message}"

    @property
    def runs(self) -> bool:
        """Whether it runs."""
        return self.newest is not None and not self.newest.has_ended

    @property
    def has_run(self) -> bool:
        """Whether an instance of it has run, even one that the journal does not have any more."""
        return self.restarts > 0 or any(not each.never_ran for each in self.instances)

    @property
    def waits_for_init(self) -> bool:
        """Whether init containers come first, so that it does not run yet."""
        return not self.runs and self.waiting.partition(":")[0] == "PodInitializing"

    @property
    def is_finished_init(self) -> bool:
        """Whether it is an init container that has done its work. A sidecar that ends with 0 has not: it waits."""
        newest = self.newest
        is_over = newest is not None and newest.has_ended and newest.exit_code == 0
        return self.is_init and is_over and self.wait is None

    @property
    def holds_up(self) -> bool:
        """For an init container: whether later ones wait for it, since it has neither finished nor become ready."""
        newest = self.newest
        return newest is None or (not self.is_ready if self.runs else newest.exit_code != 0)


@dataclass(frozen=True)
class Explanation:
    """A life of a pod at a moment."""

    records: LifeRecords
    """The records that were known at that moment."""
    at: datetime
    phase: str
    """The pod's phase; "" = not known for that moment."""
    reason: str
    message: str
    containers: tuple[Explained, ...]
    waits: tuple[Wait, ...]
    changes: tuple[OutsideChange, ...]
    is_being_deleted: bool
    deadline: datetime | None
    """When its active deadline ends."""
    grace_ends: datetime | None = None
    """When the grace period of its deletion ends; None if it is not being deleted."""
    is_followed: bool = False
    """Whether another pod of its name was applied during its deletion and follows it."""
    absences: tuple[Absence, ...] = ()
    """The times during its life in which its node had no worker, or no answer from its server."""
    under_way: tuple[StepUnderWay, ...] = ()
    """Steps that are being taken now; not known for the past."""
    last_sign: datetime | None = None
    """If the node cannot act now: when its worker or server gave the last sign of life. Until then it could act."""
    status: str = ""
    """Its STATUS in `get pods`, such as `CrashLoopBackOff`; "" = not known."""

    @property
    def word(self) -> str:
        """The state in one word: the phase of an ended pod, else the status that `get pods` prints, else the phase."""
        return self.phase if self.phase in ("Succeeded", "Failed") else self.status or self.phase

    @property
    def is_gone(self) -> bool:
        """Whether the records include the time at which nothing of the pod was left."""
        return self.records.gone is not None

    @property
    def unserved(self) -> Absence | None:
        """The time without a worker or server that the moment falls into; None if the node could act then."""
        return next((each for each in self.absences if each.begun <= self.at < each.ended), None)

    @property
    def known_until(self) -> datetime:
        """Up to when the state is known: the moment itself, or when the node could last act before it."""
        if self.is_gone or (self.phase in ("Succeeded", "Failed") and not self.waits):  # nothing of it changes any more
            return self.at
        if self.last_sign is not None:
            return min(self.at, max(self.last_sign, self.records.seen))
        return self.unserved.begun if self.unserved is not None else self.at

    @property
    def awaited(self) -> Explained | None:
        """The init container that other containers wait for; None if there is none."""
        if not any(each.waits_for_init for each in self.containers):
            return None
        return next((each for each in self.containers if each.is_init and each.holds_up), None)

    @property
    def changed(self) -> tuple[datetime, ...]:
        """When its spec was changed, apart from the first apply."""
        return tuple(each.at for each in self.changes if each.changes_spec)


def explain(
    records: LifeRecords,
    at: datetime,
    *,
    past: bool = False,
    since: datetime | None = None,
    absences: Iterable[Absence] = (),
    last_sign: datetime | None = None,
    doing: Mapping[tuple[str, str], str] | None = None,
) -> Explanation:
    """Return the state of a pod at a moment. `past` says that the moment is not now.

    Records before `since` are left out. `absences` are the times in which the pod's node had no worker or server, and
    `last_sign` is the last sign of life of the worker or server that it lacks now; None = it lacks neither. `doing` has
    the worker's descriptions of steps that are under way, by name and container.
    """
    known = as_of(records, at) if past else records
    present: Mapping[str, Any] = {} if past else known.present
    absences = tuple(absences)
    is_served = not any(each.begun <= at < each.ended for each in absences)
    waits = _waits_then(known, at, is_served=is_served) if past else _waits_now(present)
    is_being_deleted = known.gone is None and _is_being_deleted(known, present)
    if known.gone is not None:
        waits = ()
    ends = ends_of(known.instances, known.entries, known.events, _memory_limits(records.present))
    statuses = {each.get("name", ""): each for each in present.get("containers", ())}
    names = [*statuses, *(name for name in ends if name not in statuses)]
    names += sorted({each.container for each in known.instances} - set(names))
    if is_being_deleted:  # no container is started again, so back-offs do not count
        waits = tuple(wait for wait in waits if wait.is_of_a_kill or wait.subject not in names)
    inits = {each.get("name", "") for each in records.present.get("containers", ()) if each.get("init")}
    containers = tuple(
        _explained(
            name, known.instances, ends.get(name, ()), waits, statuses.get(name, {}), since, is_init=name in inits
        )
        for name in names
    )
    noted = changes_of(entry for entry in known.entries if since is None or entry.at >= since)
    changes = tuple(sorted((*noted, *failed_hooks(known.events, since)), key=lambda each: each.at))
    return Explanation(
        records=known,
        at=at,
        phase=present.get("phase", ""),
        reason=present.get("reason", "") or "",
        message=present.get("message", "") or "",
        containers=containers,
        waits=waits,
        changes=changes,
        is_being_deleted=is_being_deleted,
        deadline=None if past or known.gone is not None else _deadline(present),
        grace_ends=_grace_ends(known, present) if is_being_deleted else None,
        is_followed=is_being_deleted and _is_followed(known),
        absences=tuple(
            each for each in absences if each.of(max(known.begun, since or known.begun), known.gone or at) > _NO_TIME
        ),
        under_way=() if known.gone is not None else _under_way(present, doing or {}),
        last_sign=last_sign,
        status=present.get("status", ""),
    )


def _explained(
    name: str,
    instances: Iterable[Instance],
    ends: Sequence[End],
    waits: Iterable[Wait],
    status: Mapping[str, Any],
    since: datetime | None,
    *,
    is_init: bool,
) -> Explained:
    """Return the known state of one container; `status` is empty if it has none at that moment."""
    return Explained(
        name,
        instances=tuple(each for each in instances if each.container == name),
        ends=tuple(end for end in ends if since is None or _ended_after(end, since)),
        wait=next((wait for wait in waits if wait.subject == name), None),
        is_ready=status.get("ready"),
        waiting=_waiting(status),
        is_init=is_init,
        last_end=ends[-1] if ends else None,
        restarts=status.get("restarts", 0),
    )


def _under_way(present: Mapping[str, Any], doing: Mapping[tuple[str, str], str]) -> tuple[StepUnderWay, ...]:
    return tuple(
        StepUnderWay(
            each.get("what", ""), _moment(each.get("since")), step, container, doing.get((step, container), "")
        )
        for each in present.get("underWay", ())
        for step, container in [(each.get("step", ""), each.get("container", ""))]
    )


def as_of(records: LifeRecords, at: datetime) -> LifeRecords:
    """Return the records of a life that were known at a moment. An instance that ended later was running then."""
    instances = tuple(
        each if each.ended_at is None or each.ended_at <= at else _still_running(each)
        for each in records.instances
        if each.started_at is None or each.started_at <= at
    )
    return replace(
        records,
        gone=records.gone if records.gone is not None and records.gone <= at else None,
        seen=min(records.seen, at),
        entries=tuple(entry for entry in records.entries if entry.at <= at),
        events=tuple(each for each in records.events if each.first <= at),
        instances=instances,
    )


def life_at(lives: list[LifeRecords], at: datetime) -> LifeRecords | None:
    """Return the life at a moment, or else the last one before it; None if there was none yet."""
    return next((each for each in reversed(lives) if each.begun <= at), None)


def _still_running(instance: Instance) -> Instance:
    return replace(instance, exit=None, log_end="")


def _ended_after(end: End, since: datetime) -> bool:
    return end.instance.ended_at is None or end.instance.ended_at >= since


def _memory_limits(present: Mapping[str, Any]) -> dict[str, str]:
    found = {each["name"]: each.get("limits", {}).get("memory", "") for each in present.get("containers", ())}
    return {name: str(limit) for name, limit in found.items() if limit}


def _waiting(status: Mapping[str, Any]) -> str:
    waiting = status.get("state", {}).get("waiting") or {}
    return ": ".join(part for part in (waiting.get("reason", ""), waiting.get("message", "")) if part)


def _waits_now(present: Mapping[str, Any]) -> tuple[Wait, ...]:
    return tuple(
        Wait(each["subject"], _moment(each.get("until")), each.get("reason", ""), each.get("message", ""))
        for each in present.get("waits", ())
    )


def _waits_then(records: LifeRecords, at: datetime, *, is_served: bool) -> tuple[Wait, ...]:
    """Return the waits that were under way at a moment: their subject has neither started nor taken a step.

    A wait that is due goes on as long as the node cannot act.
    """
    newest: dict[str, HistoryEntry] = {}
    for entry in records.entries:
        if entry.kind == "hold":
            newest[entry.subject] = entry
        elif entry.kind == "step":
            newest.pop(entry.container or entry.subject, None)
    for instance in records.instances:
        hold = newest.get(instance.container)
        if hold is not None and instance.started_at is not None and instance.started_at > hold.at:
            del newest[instance.container]
    return tuple(
        Wait(subject, due_of(entry), entry.fact, entry.reason.partition(": ")[2])
        for subject, entry in newest.items()
        if not is_served or (due_of(entry) or at) >= at
    )


def _is_being_deleted(records: LifeRecords, present: Mapping[str, Any]) -> bool:
    if present:
        return bool(present.get("deletion"))
    return any(_sets_grace(entry) for entry in records.entries)


def _sets_grace(entry: HistoryEntry) -> bool:
    return entry.kind == "update" and entry.fact in (Fact.DELETED, Fact.GRACE_SHORTENED)


def _grace_ends(records: LifeRecords, present: Mapping[str, Any]) -> datetime | None:
    """Return when the grace period of a deletion ends. A later deletion may have shortened it."""
    asked = [entry for entry in records.entries if _sets_grace(entry)]
    deletion = present.get("deletion") or {}
    begun = _moment(deletion.get("at"))
    if not asked and begun is not None:
        asked = [HistoryEntry(begun, "update", fact=Fact.DELETED, seconds=deletion.get("graceSeconds") or 0)]
    return min((due for entry in asked if (due := due_of(entry)) is not None), default=None)


def _is_followed(records: LifeRecords) -> bool:
    """Return whether a pod was applied during the deletion, and the deletion was not repeated after that."""
    noted = [entry.fact for entry in records.entries if entry.fact in (Fact.SUCCESSOR_APPLIED, Fact.SUCCESSOR_DROPPED)]
    return bool(noted) and noted[-1] == Fact.SUCCESSOR_APPLIED


def _deadline(present: Mapping[str, Any]) -> datetime | None:
    seconds, started = present.get("activeDeadlineSeconds"), _moment(present.get("startTime"))
    if seconds is None or started is None or present.get("phase") in ("Succeeded", "Failed"):
        return None
    try:
        return started + timedelta(seconds=seconds)
    except OverflowError:
        return None


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
