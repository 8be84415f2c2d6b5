"""Explains in words why an instance of a container ended, and who decided to end it.

The journal has the facts as the pod's workflow recorded them. This module turns them into sentences, without I/O.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from syncpod.go_durations import go_duration
from syncpod.journal.error_text import innermost, one_line
from syncpod.journal.records import (
    NEVER_RAN,
    RESTART_OF_ALL,
    SENDER,
    WORKFLOW,
    EventRecord,
    Fact,
    HistoryEntry,
    Instance,
)
from syncpod.lifecycle.kill_cause import AFTER_ITS_GRACE, PRE_STOP_FAILED, KillCause

_SLACK: Final = timedelta(seconds=2)
"""How far the node's clock may differ from the server's, and how late the report of a probe's last failure may be."""
_NONE: Final = timedelta(0)
_NOT_SEEN: Final = "ContainerStatusUnknown"
_EXITED: Final = re.compile(r"command '.*?' exited with (?P<code>\d+)(: |$)", re.DOTALL)
"""The beginning of the error of a command that ran in a container."""


class Cause(NamedTuple):
    """Why an instance ended."""

    kind: str
    """One word for causes of the same kind: `exit`, `signal`, `oom`, ..., and the `KillCause` of a kill."""
    words: str
    by: str
    """Who decided: `itself`, `the kernel`, `the liveness probe`, `an operator`, ..."""


FOREIGN_SIGNAL: Final = "a signal that the node did not send, or itself"
"""Who decided an end whose exit code stands for a signal, if no cause is recorded.

The node records a cause before it sends a signal. The CRI reports only the exit code: 137 may be SIGKILL or `exit 137`.
"""
UNKNOWN: Final = "unknown"
"""The kind of an end that nobody saw. Its exit code is only a stand-in."""
OOM_WITHIN: Final = "oom within"
"""The kind of an end by exit, after a process other than the container's first one had run out of memory."""


@dataclass(frozen=True)
class End:
    """One end of a container's instance, and the restart that followed it."""

    instance: Instance
    cause: Cause
    next_start: datetime | None = None
    """When the next instance started, or the attempt to start it failed; None = there was none."""
    back_off: str = ""
    """The back-off delay before that start, such as `10s`; "" = there was none."""
    memory_limit: str = ""
    """The container's memory limit, if it ran out of memory."""
    cut_short: bool = False
    """Whether an operator ended the back-off before its time."""

    @property
    def waited(self) -> timedelta | None:
        """How long after the end the next instance started; None if that is not known."""
        if self.next_start is None or self.instance.ended_at is None:
            return None
        return max(timedelta(0), self.next_start - self.instance.ended_at)


_BY: Final[Mapping[str, str]] = {
    KillCause.LIVENESS: "the liveness probe",
    KillCause.STARTUP: "the startup probe",
    KillCause.OPERATOR: "an operator",
    KillCause.UPDATE: "an update of the pod",
    KillCause.RESIZE: "a resize",
    KillCause.RULE: "a restart rule",
    KillCause.SANDBOX: "the node: its sandbox was lost",
    KillCause.DELETED: "its deletion",
    KillCause.EVICTED: "the node: eviction",
    KillCause.DEADLINE: "the pod's deadline",
    KillCause.FINISHED: "the end of the pod",
    KillCause.EARLIER_LIFE: "the node: an earlier life",
    KillCause.ORPHAN: "the node: it had no workflow",
}
"""The decider of a kill, by its cause; the node decided all other kills."""

NAMED_BY_ITS_WORDS: Final = frozenset(_BY)
"""The kinds of causes whose words already name the decider, so that a sentence need not add the decider."""

_WORDS: Final[Mapping[str, str]] = {
    KillCause.OPERATOR: "restarted by an operator",
    KillCause.UPDATE: "its definition was changed",
    KillCause.RESIZE: "a resize needs a restart",
    KillCause.DELETED: "the pod was deleted",
    KillCause.EARLIER_LIFE: "an apply began a new life of this name after this one's workflow was ended",
}
"""The words for a kill; for any other cause, the recorded words are used."""


def cause_of(instance: Instance, events: Iterable[EventRecord] = (), memory_limit: str = "") -> Cause:
    """Return why an instance ended. A probe's last output comes from the pod's events."""
    if instance.killed_by:
        return _caused(instance, events)
    code, reason = instance.exit_code, instance.reason
    if reason == "OOMKilled":
        limit = f" at its limit of {memory_limit}" if memory_limit else ""
        if instance.signal == signal.SIGKILL:
            return Cause("oom", f"out of memory{limit}", "the kernel")
        # The kernel ended another process. The first one went on, and ended with this code later.
        return Cause(OOM_WITHIN, f"exited {code} after a process in it ran out of memory{limit}", "itself")
    if reason == _NOT_SEEN or (code, reason) == (255, "Unknown"):
        known = f": {one_line(instance.message)}" if instance.message else ""
        return Cause(UNKNOWN, f"its exit was not observed{known}", "unknown")
    if reason in NEVER_RAN:
        return Cause("start", f"could not be started: {innermost(instance.message)}", "the runtime")
    if instance.signal:
        # A runtime that was down during an out-of-memory kill did not see it, so only the signal is known.
        unproven = ", with no report that memory ran out" if instance.signal == signal.SIGKILL else ""
        words = f"exited {code} (128+{_signal_name(instance.signal)}){unproven}{_left_message(instance)}"
        return Cause("signal", words, FOREIGN_SIGNAL)
    if code == 0:
        return Cause("exit 0", "finished (exit 0)", "itself")
    other = f" ({reason})" if reason not in ("", "Error") else ""
    return Cause(f"exit {code}", f"exited {code}{other}{_left_message(instance)}", "itself")


def _left_message(instance: Instance) -> str:
    """Return `: ` and the container's termination message; "" if it left none, or only repeats the end of its log."""
    message, log = one_line(instance.message), one_line(instance.log_end)
    return f": {message}" if message and not (log and (log.endswith(message) or message.endswith(log))) else ""


def ends_of(
    instances: Sequence[Instance],
    entries: Sequence[HistoryEntry],
    events: Sequence[EventRecord],
    limits: Mapping[str, str] | None = None,
) -> dict[str, list[End]]:
    """Return the ends of each container's instances, in the order of their numbers. `limits` are memory limits."""
    by_container: dict[str, list[Instance]] = {}
    for instance in sorted(instances, key=lambda each: each.restart):
        by_container.setdefault(instance.container, []).append(instance)
    found: dict[str, list[End]] = {}
    asked = _restarters_of_all(entries)
    for name, each_of in by_container.items():
        holds = [entry for entry in entries if entry.kind == "hold" and entry.subject in (name, RESTART_OF_ALL)]
        signals = [entry for entry in entries if entry.kind == "signal"]
        all_released = [entry.at for entry in signals if entry.fact == Fact.BACK_OFF_OF_ALL_ENDED]
        released = [entry.at for entry in signals if (entry.fact, entry.container) == (Fact.BACK_OFF_ENDED, name)]
        restarted = [entry.at for entry in signals if (entry.subject, entry.container) == ("restart", name)]
        seen = [each for each in events if each.container == name]
        limit = (limits or {}).get(name, "")
        following = [*each_of[1:], None]
        found[name] = [
            End(
                one,
                _asking(cause_of(one, seen, limit), is_asked=(name, one.restart) in asked),
                _start_of(after),
                back_off,
                limit if one.reason == "OOMKilled" else "",
                _cut_short(released, one, after)
                or (bool(back_off) and _cut_short(all_released, one, after))
                or (bool(back_off) and _cut_short(restarted, one, after, slack=_NONE)),
            )
            for one, after in zip(each_of, following, strict=True)
            if one.has_ended
            for back_off in (_back_off(holds, one, after),)
        ]
    return found


def _restarters_of_all(entries: Sequence[HistoryEntry]) -> set[tuple[str, int]]:
    """Return the instances whose ends restarted all containers: the last one to end by itself before each restart."""
    asked: set[tuple[str, int]] = set()
    newest: tuple[str, int] | None = None
    for entry in entries:
        if entry.kind == "exit" and not entry.fact:
            newest = entry.subject, entry.restart
        elif entry.fact == Fact.RESTARTS_ALL and newest is not None:
            asked.add(newest)
    return asked


def _of_hook(message: str) -> str:
    """Return how a hook failed, and its last output, from the message of its failure; "" if there is none."""
    _, _, error = message.partition(" failed - error: ")
    if not error:
        return f": {one_line(message)}" if message else ""
    error, _, quoted = error.partition(', message: "')
    exited = _EXITED.match(error)
    if exited is None:
        return f": {one_line(error)}"
    output = _unquoted(quoted.removesuffix('"')) or error[exited.end() :]
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    return f": exited {exited['code']}{f': {one_line(last)}' if last else ''}"


def _unquoted(text: str) -> str:
    """Return a string that Go has quoted. Its escapes are nearly those of JSON; others stay as they are."""
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def _asking(cause: Cause, *, is_asked: bool) -> Cause:
    return cause._replace(words=f"{cause.words}, so a rule restarted all containers") if is_asked else cause


def _start_of(instance: Instance | None) -> datetime | None:
    """Return when an instance started, or when its start failed."""
    if instance is None:
        return None
    return instance.ended_at if instance.never_ran else instance.started_at


def _cut_short(released: Sequence[datetime], one: Instance, after: Instance | None, slack: timedelta = _SLACK) -> bool:
    """Return whether one of these commands of an operator came between an instance's end and the next one's start.

    A restart command just after that start ends the next instance, so restarts are compared without `slack`.
    """
    if one.ended_at is None:
        return False
    begun, until = one.ended_at, _start_of(after)
    return any(at >= begun and (until is None or at <= until + slack) for at in released)


def _back_off(holds: Sequence[HistoryEntry], one: Instance, after: Instance | None) -> str:
    """Return the delay of the back-off that began between an instance's end and the next instance's start."""
    if one.ended_at is None:
        return ""
    until = after.started_at or after.ended_at if after is not None else None
    delays = [
        each.seconds
        for each in holds
        if each.fact == Fact.CRASH_LOOP
        and each.seconds is not None
        and each.at >= one.ended_at - _SLACK
        and (until is None or each.at <= until)
    ]
    return go_duration(timedelta(seconds=delays[-1])) if delays else ""


def _caused(instance: Instance, events: Iterable[EventRecord]) -> Cause:
    kind = instance.killed_by
    # Another process than the first ran out of memory: the first one went on until the node ended it.
    before = "; a process ran out of memory" if instance.reason == "OOMKilled" else _after_its_grace(instance)
    match kind:
        case KillCause.LIVENESS | KillCause.STARTUP:
            words = f"{kind} probe failed{_last_output(kind, instance, events)}"
        case KillCause.HOOK:
            words = f"its postStart hook failed{_of_hook(instance.cause)}"
        case _:
            words = _WORDS.get(kind, instance.cause)
    return Cause(kind, f"{words}{before}", _BY.get(kind, "the node"))


def _after_its_grace(instance: Instance) -> str:
    """Return a clause if the instance ended by SIGKILL, and so only after its grace period; "" if it did not."""
    return AFTER_ITS_GRACE if instance.signal == signal.SIGKILL else ""


def _last_output(kind: str, instance: Instance, events: Iterable[EventRecord]) -> str:
    """Return `: ` and the last output of an instance's probe; "" if none is recorded, or if it is empty."""
    title = f"{kind.capitalize()} probe failed: "
    until = instance.ended_at
    said = [
        each
        for each in events
        if each.reason == "Unhealthy"
        and each.message.startswith(title)
        and (until is None or each.first <= until + _SLACK)
        and (instance.started_at is None or each.last >= instance.started_at)
    ]
    newest = max(said, key=lambda each: min(each.last, until) if until else each.last, default=None)
    output = one_line(newest.message.removeprefix(title)) if newest is not None else ""
    return f": {output}" if output else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# --- what people and the node did -------------------------------------------------------------------------------------

_VERDICTS: Final = frozenset({"evict", "deadline"})
"""The signals by which a pod fails as a whole."""
_NOISE: Final = frozenset(
    {"done", "adopted", "cancelled", "stopping", "spent", "image_absent", "imageabsent", "notbegun"}
)


_PROCESS: Final = re.compile(r", pid \d+$")
"""The part of an identity that only distinguishes the processes of one command, and means nothing later."""


class OutsideChange(NamedTuple):
    """Something that was done to a pod from outside, or a failure, perhaps repeated."""

    at: datetime
    """When it last happened."""
    what: str
    times: int = 1
    first: datetime | None = None
    """When it first happened; None if it happened only once."""
    changes_spec: bool = False
    """Whether it changed the pod's spec."""
    ends_pod: bool = False
    """Whether it ends the pod: a deletion or an eviction."""


def _rank(entry: HistoryEntry) -> int:
    """Order changes of the same time: the end of the workflow before, the creation of the pod, then all others."""
    return 0 if (entry.kind, entry.subject) == ("update", WORKFLOW) else 1 if entry.fact == Fact.MADE else 2


def changes_of(entries: Iterable[HistoryEntry]) -> list[OutsideChange]:
    """Return commands and changes from outside, with their senders, and failures.

    Repetitions of the same change are one entry, in the place of the last repetition.
    """
    found: dict[str, OutsideChange] = {}
    entries = sorted(entries, key=lambda entry: (entry.at, _rank(entry)))
    senders = {(entry.at, entry.subject): entry.reason for entry in entries if entry.kind == SENDER}
    for entry in entries:
        if what := _change(entry):
            if sender := senders.get((entry.at, entry.subject)):
                what = f"{what}, by {_PROCESS.sub('', sender)}"
            before = found.pop(what, None)
            first, times = (None, 1) if before is None else (before.first or before.at, before.times + 1)
            found[what] = OutsideChange(entry.at, what, times, first, entry.fact == Fact.SPEC_CHANGED, _ends_pod(entry))
    return list(found.values())


def failed_hooks(events: Iterable[EventRecord], since: datetime | None = None) -> list[OutsideChange]:
    """Return the preStop hooks that failed or were cut short, by the pod's events since a moment.

    Such a hook neither ends a container nor prevents its end, so only the event records it.
    """
    return [
        OutsideChange(
            each.last,
            f"preStop hook of {each.container} {each.message.removeprefix('PreStopHook ')}",
            each.count,
            each.first if each.count > 1 else None,
        )
        for each in events
        if each.reason == PRE_STOP_FAILED and each.last is not None and (since is None or each.last >= since)
    ]


def _ends_pod(entry: HistoryEntry) -> bool:
    return entry.fact == Fact.DELETED or (entry.kind, entry.subject) == ("signal", "evict")


def _change(entry: HistoryEntry) -> str:
    if entry.kind == "update" and entry.subject == WORKFLOW:
        return f"its workflow {entry.reason}"
    if entry.kind == "update":
        return f"{entry.subject}: {entry.reason}" if entry.reason else entry.subject
    if entry.kind == "signal" and (entry.is_command or entry.subject in _VERDICTS):
        return f"{entry.subject}: {entry.reason}"
    if entry.kind == "decision" and entry.subject == "fail":
        return f"the pod failed: {entry.reason}"
    if entry.kind == "rejected":
        return f"refused: {entry.reason}"
    if (entry.kind, entry.subject, entry.outcome) == ("step", "resize_pod", "done"):
        return f"resized in place: {entry.reason}"
    if entry.kind == "step" and entry.outcome.lower() not in _NOISE:
        what = " ".join(part for part in (entry.subject, entry.container) if part)
        _, _, error = one_line(entry.reason).partition(": ")  # before the colon: why the step was taken
        error = error.removeprefix(f"{entry.outcome}: ")
        return f"step {what} failed: {entry.outcome}{f': {innermost(error)}' if error else ''}"
    if entry.kind == "hold" and entry.fact != Fact.CRASH_LOOP:
        return f"{entry.subject} waits: {entry.fact}"
    return ""
