"""Divides the time of one start of a container into phases. Pure: from the journal's records of its pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, Literal

from syncpod.go_durations import go_duration
from syncpod.journal.error_text import one_line
from syncpod.journal.reading import LifeRecords
from syncpod.journal.records import SENDER, SERVER_AWAY, Absence, EventRecord, Fact, HistoryEntry, Instance, due_of

_NOTHING: Final = timedelta(0)
_SHORT: Final = timedelta(milliseconds=1)
"""A shorter gap is left out: the journal has the lengths of steps in whole milliseconds."""
_EARLY: Final = timedelta(seconds=2)
"""How far the node's clock may differ from the server's."""
_NO_STEP: Final = "no step under way"
_SUCCESSES: Final = (Fact.STARTUP_SUCCESS, Fact.LIVENESS_SUCCESS, Fact.READINESS_SUCCESS)


@dataclass(frozen=True)
class Phase:
    """One part of a start."""

    begun: datetime
    took: timedelta
    """Zero for things without a length: a signal, a decision, an end."""
    kind: Literal["step", "back-off", "no worker", "no server", "between", "probes", "moment"]
    """`between` is time before the container's start that has no record: init containers that run, and the workflow's
    own tasks. `probes` is the time until a probe has succeeded, from the container's start or from the previous probe's
    success."""
    what: str


@dataclass(frozen=True)
class Start:
    """One start of a container, from its cause until it was ready, or until its last recorded phase."""

    instance: Instance
    begun: datetime
    """When its cause was recorded."""
    ready: datetime | None
    """When its readiness probe first succeeded; None = the journal has no such result."""
    phases: tuple[Phase, ...]

    @property
    def ended(self) -> datetime:
        """When its last phase was over."""
        return max((phase.begun + phase.took for phase in self.phases), default=self.begun)

    def spent(self, kind: str) -> timedelta:
        """Return the total time of the phases of one kind. Time in which two of them overlap counts once."""
        spent, covered = _NOTHING, self.begun
        for phase in sorted((phase for phase in self.phases if phase.kind == kind), key=lambda phase: phase.begun):
            ended = phase.begun + phase.took
            spent += max(_NOTHING, ended - max(phase.begun, covered))
            covered = max(covered, ended)
        return spent


def start_of(
    records: LifeRecords, *, container: str = "", restart: int | None = None, absences: Sequence[Absence] = ()
) -> Start | None:
    """Return the newest start of a pod, or of one `container`, or the start number `restart`; None if there is none.

    `absences` are the times in which the pod's node had no worker or server, oldest first.

    Start number 0 begins with the pod's apply, so sandbox, pulls and init containers are part of it. Start number 0 of
    an ephemeral container begins with the update that added the container. Any other start begins with the end of the
    previous instance, or with the node's decision to end that instance.
    """
    wanted = [
        (each.started_at, each.restart, each)
        for each in records.instances
        if each.started_at is not None and container in ("", each.container) and restart in (None, each.restart)
    ]
    if not wanted:
        return None
    *_, instance = max(wanted, key=lambda found: found[:2])
    at = _begin(records, instance)
    recorded = _one_after_the_other(records.entries)
    done = _done(recorded, instance, at)
    others = {each.container for each in records.instances} - {instance.container}
    entries = [
        entry
        for entry in recorded
        if at <= _begun(entry)
        and (done is None or entry.at <= done)
        and not (entry.kind == "hold" and entry.subject in others)
    ]
    results = list(_probes(records.entries, instance, at))
    ready = next((entry.at for entry in results if entry.fact == Fact.READINESS_SUCCESS), None)
    phases = sorted([*_phases(entries, instance), *map(_moment, results)], key=lambda phase: phase.begun)
    before = [each for each in records.instances if each.container in others]
    whole = [_named(phase, before) for phase in _with_gaps(phases, entries, done, absences)]
    return Start(instance, at, ready, tuple(_with_probes(whole, results, instance, records.events)))


def _one_after_the_other(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Return the lines; each step that a start waited for is moved, to end where the start begins.

    The results of step and start may reach the workflow in one task, so that their lines have the same time. The length
    of a step does not include its waiting. A moved step is shortened if it would begin before the decision to take it.
    """
    apart = [*entries]
    decided: datetime | None = None
    for index, (entry, after) in enumerate(pairwise(entries)):
        is_followed = entry.subject.startswith(("create_sandbox", "start_")) and after.subject.startswith("start_")
        if entry.kind == after.kind == "step" and is_followed and entry.at == after.at:
            at = _begun(after)
            most = entry.took_ms if decided is None else max(0, (at - decided) // timedelta(milliseconds=1))
            apart[index] = replace(entry, at=at, took_ms=min(entry.took_ms, most))
        if entry.kind == "decision":
            decided = entry.at
    return apart


def _begun(entry: HistoryEntry) -> datetime:
    return entry.at - timedelta(milliseconds=entry.took_ms)


def _begin(records: LifeRecords, instance: Instance) -> datetime:
    """Return when the cause of a start was recorded."""
    if instance.restart == 0:
        added = [entry.at for entry in records.entries if _adds(entry, instance.container)]
        return added[0] if added else records.entries[0].at if records.entries else records.begun
    before = [
        entry
        for entry in records.entries
        if (entry.kind, entry.subject, entry.restart) == ("exit", instance.container, instance.restart - 1)
    ]
    if not before:  # the workflow never recorded that end, or newer lines have displaced it
        ended = (
            each.ended_at
            for each in records.instances
            if (each.container, each.restart) == (instance.container, instance.restart - 1)
        )
        return next(ended, None) or instance.started_at or records.begun
    if not before[0].reason:
        return before[0].at
    decided = [entry.at for entry in records.entries if entry.kind == "decision" and entry.at <= before[0].at]
    return decided[-1] if decided else before[0].at


def _adds(entry: HistoryEntry, container: str) -> bool:
    """Return whether an entry is the update that added this ephemeral container to the pod."""
    return (entry.kind, entry.subject, entry.reason) == ("update", "add_ephemeral_container", container)


def _done(entries: Sequence[HistoryEntry], instance: Instance, begin: datetime) -> datetime | None:
    """Return when the step that started the instance ended; None if that is not known."""
    steps = (
        entry.at
        for entry in entries
        if entry.kind == "step"
        and entry.subject.startswith("start_")
        and entry.container == instance.container
        and entry.at >= begin
        and (instance.started_at is None or entry.at >= instance.started_at)
    )
    return next(steps, None)


def _probes(entries: Sequence[HistoryEntry], instance: Instance, begin: datetime) -> Iterator[HistoryEntry]:
    """Yield the first success of each of the instance's probes."""
    since = instance.started_at or begin
    seen: set[str] = set()
    for entry in entries:
        if entry.fact in _SUCCESSES and entry.container == instance.container:
            is_its = entry.at >= since and (instance.ended_at is None or entry.at <= instance.ended_at)
            if is_its and entry.fact not in seen:
                seen.add(entry.fact)
                yield entry


def _phases(entries: Sequence[HistoryEntry], instance: Instance) -> Iterator[Phase]:
    for entry in entries:
        if entry.kind == "step":
            tries = f", {entry.attempt} tries" if entry.attempt > 1 else ""
            name = " ".join(part for part in (entry.subject, entry.container) if part)
            outcome = "" if entry.outcome == "done" else f" ({entry.outcome})"
            length = timedelta(milliseconds=entry.took_ms)
            yield Phase(_begun(entry), length, "step", f"{name}{outcome}{tries}: {entry.reason}")
        elif entry.kind not in ("hold", SENDER):
            yield _moment(entry)
    if instance.started_at is not None:
        yield Phase(instance.started_at, _NOTHING, "moment", f"{instance.container} runs (by the node's clock)")


def _moment(entry: HistoryEntry) -> Phase:
    name = " ".join(part for part in (entry.kind, entry.subject, entry.container) if part)
    text = ": ".join(part for part in (entry.outcome, entry.reason) if part)
    return Phase(entry.at, _NOTHING, "moment", f"{name}: {text}" if text else name)


def _with_gaps(
    phases: Sequence[Phase], entries: Sequence[HistoryEntry], done: datetime | None, absences: Sequence[Absence]
) -> Iterator[Phase]:
    """Yield the phases, with the gaps between the steps filled in: back-offs, and time without a worker or a record.

    `entries` must not have waits of other containers.
    """
    covered: datetime | None = None
    for phase in phases:
        is_before_end = done is None or phase.begun <= done
        if covered is not None and is_before_end:
            yield from _gap(covered, phase.begun, _held(entries, phase.begun), absences)
        covered = max(phase.begun + phase.took, covered or phase.begun)
        yield phase


def _held(entries: Sequence[HistoryEntry], until: datetime) -> HistoryEntry | None:
    """Return the last wait before a moment; None if there is none, or if a step that it held has begun since.

    Other records in between do not end the wait.
    """
    held = [entry for entry in entries if entry.kind == "hold" and entry.at < until]
    if not held:
        return None
    newest = held[-1]
    begun = (
        entry.kind == "step"
        and newest.subject in (entry.container, entry.subject)
        and newest.at < _begun(entry) < until
        for entry in entries
    )
    return None if any(begun) else newest


def _gap(begun: datetime, until: datetime, held: HistoryEntry | None, absences: Sequence[Absence]) -> Iterator[Phase]:
    """Yield the parts of a gap. A back-off that goes on without a worker counts as a back-off."""
    due = begun if held is None else min(due_of(held) or until, until)
    if held is not None and due - begun >= _SHORT:
        long = f" {go_duration(timedelta(seconds=held.seconds))}" if held.seconds is not None else ""
        yield Phase(begun, due - begun, "back-off", f"{held.subject} waits: {held.fact}{long}")
        begun = due
    for away in absences:
        if away.of(begun, until) >= _SHORT:
            if away.begun - begun >= _SHORT:
                yield Phase(begun, away.begun - begun, "between", _NO_STEP)
            begun = max(away.begun, begun)
            kind: Literal["no server", "no worker"] = "no server" if away.how == SERVER_AWAY else "no worker"
            yield Phase(begun, away.of(begun, until), kind, f"no {away.lacks} served the node")
            begun = min(away.ended, until)
    if until - begun >= _SHORT:
        yield Phase(begun, until - begun, "between", _NO_STEP)


def _named(phase: Phase, others: Sequence[Instance]) -> Phase:
    """Return a gap with the name of the container that ran in most of it, such as an init container."""
    if phase.kind != "between":
        return phase
    until = phase.begun + phase.took
    for each in others:
        if each.started_at is None or each.ended_at is None:
            continue
        ran = min(each.ended_at, until) - max(each.started_at, phase.begun)
        if ran > phase.took / 2:
            return replace(phase, what=f"{_NO_STEP}: {each.container} runs")
    return phase


def _with_probes(
    phases: Sequence[Phase], results: Sequence[HistoryEntry], instance: Instance, events: Sequence[EventRecord]
) -> Iterator[Phase]:
    """Yield the phases, and one more for the time before each probe's first success, with the last failure."""
    successes = {entry.at: str(entry.fact).partition(" ")[0] for entry in results}
    covered: datetime | None = None
    for phase in phases:
        probe = successes.get(phase.begun) if phase.kind == "moment" else None
        if probe is not None and covered is not None and phase.begun - covered >= _SHORT:
            said = _said(probe, covered, phase, events)
            what = f"{instance.container} runs, until its {probe} probe succeeds{said}"
            yield Phase(covered, phase.begun - covered, "probes", what)
        covered = max(phase.begun + phase.took, covered or phase.begun)
        yield phase


def _said(probe: str, begun: datetime, success: Phase, events: Sequence[EventRecord]) -> str:
    """Return a clause: how often a probe failed before its success, and its last output; "" if it never failed."""
    title = f"{probe.capitalize()} probe failed: "
    failed = [
        each
        for each in events
        if each.message.startswith(title) and begun <= each.last <= success.begun and each.first >= begun - _EARLY
    ]
    if not failed:
        return ""
    newest = max(failed, key=lambda each: each.last)
    count = sum(each.count for each in failed)
    return f", which failed {f'{count} times' if count > 1 else 'once'}: {one_line(newest.message.removeprefix(title))}"
