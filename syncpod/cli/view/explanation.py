"""The output of ``syncpod explain`` for a pod: one screen of text. Values in, text out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from syncpod.api.views.durations import short_duration
from syncpod.api.views.layout import clipped, pairs, table, wrapped
from syncpod.api.views.text import printable
from syncpod.cli.console import paint
from syncpod.journal.causes import FOREIGN_SIGNAL, NAMED_BY_ITS_WORDS, Cause, End, OutsideChange
from syncpod.journal.error_text import innermost, one_line
from syncpod.journal.explain import Explained, Explanation, StepUnderWay, Wait
from syncpod.journal.patterns import patterns
from syncpod.journal.reading import LifeRecords
from syncpod.journal.records import RESTART_OF_ALL, Absence, Fact, Instance
from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.rejection import was_rejected

ENDS_SHOWN: Final = 8
CHANGES_SHOWN: Final = 8
ABSENCES_SHOWN: Final = 4
_LOG_LINES: Final = 5
"""The limits of the output: ends, changes, absences of a worker, and last lines of a log. `-o json` has all."""

_SENTENCE: Final = 160
"""Maximum number of characters of a message that are shown. A change is cut only if the width of a line is limited."""
_HEALTHY: Final = timedelta(minutes=10)
"""A kubelet resets the back-off of a container that has run for this long: twice the longest back-off."""

_NO_TIME: Final = timedelta(0)
_PULLS: Final = ("ImagePullBackOff", "ErrImagePull")
_PLAIN: Final = re.compile(r"[^:,;]*")
"""A text of one part. Behind a text of several parts, "by itself" would seem to belong to the last part only."""
_SANDBOX: Final = StepName.CREATE_SANDBOX.value
_MISSING: Final = re.compile(r'(configmap|secret) "[^"]+" not found$')
"""The end of the message of a wait that the node ends once an object appears."""

HasLog = Callable[[str, int], bool]
"""Returns whether the log file of a container's instance still exists."""


def lines(
    explanation: Explanation,
    others: Sequence[LifeRecords],
    now: datetime,
    *,
    log_dir: Path,
    has_log: HasLog,
    unserved: str,
    wide: int | None = None,
) -> list[str]:
    """Return one screen about a life of a pod. `others` are the other lives of its name, oldest first.

    `unserved` is a sentence if the node cannot act now; "" if it can. Lines have at most `wide` characters: long texts
    are wrapped, and cut in tables; None = no limit.
    """
    clock = Clock(explanation.at)
    shown = [*pairs(_heading(explanation, clock, now, unserved), wide=wide)]
    for container in explanation.containers:
        shown += ["", *_container(explanation, container, clock, log_dir, has_log, wide)]
    if explanation.changes or explanation.absences:
        shown += ["", *_changes(explanation, clock, wide)]
    if others:
        uid = "" if all(each.life.uid == explanation.records.life.uid for each in others) else ", each by `--uid UID`"
        shown += [
            "",
            f"Other lives of this name{uid}:",
            *(f"  {_other_life(each, clock)}" for each in others[-_LOG_LINES:]),
        ]
    return shown


class Clock:
    """Writes times of day, with the date if it differs from the date of the explained moment."""

    def __init__(self, at: datetime) -> None:
        self._day = at.astimezone().date()

    def __call__(self, at: datetime | None) -> str:
        """Return the moment as text; `?` for None, which means that it is not known."""
        if at is None:
            return "?"
        local = at.astimezone()
        return f"{local:%H:%M:%S}" if local.date() == self._day else f"{local:%Y-%m-%d %H:%M:%S}"


def length(span: timedelta | None) -> str:
    """Return a span as text, with tenths of a second if it is short; `?` if it is not known."""
    if span is None:
        return "?"
    seconds = span.total_seconds()
    return f"{seconds:.1f}s" if seconds < 10 else short_duration(span)


# --- the heading ------------------------------------------------------------------------------------------------------


def _heading(one: Explanation, clock: Clock, now: datetime, unserved: str) -> list[tuple[str, list[str]]]:
    life, records = one.records.life, one.records
    node = records.present.get("node", "")
    then = f"At {Clock(now)(one.known_until)}"  # with the date if that was not today
    titled = [
        ("Pod", [f"{life.namespace}/{life.name}{f' on node {node}' if node else ''}, since {clock(records.begun)}"]),
        ("Now" if one.known_until >= now else then, [_now(one, clock)]),
    ]
    if why := _why(one, clock):
        titled.append(("Why", why))
    titled.append(("Next", _next(one, clock, unserved)))
    return titled


def _now(one: Explanation, clock: Clock) -> str:
    if one.is_gone:
        return f"gone since {clock(one.records.gone)}"
    over = all(each.newest is not None for each in one.containers if not each.is_init)
    shown = [each for each in one.containers if not (over and each.is_finished_init)]
    state = ", ".join(_state(each, one, clock) for each in shown) or "no container has been started"
    phase = "being deleted" if one.is_being_deleted else one.word
    reason = f" ({one.reason})" if one.reason else ""
    unknown = "; later events are not known" if one.known_until < one.at else ""
    return f"{phase}{reason}: {state}{unknown}" if phase else f"{state}{unknown}"


def _state(container: Explained, one: Explanation, clock: Clock) -> str:
    newest = container.newest
    if newest is None and (one.is_gone or one.phase in ("Succeeded", "Failed")):
        return f"{container.name} was never started"
    if newest is None:
        reason = container.waiting.partition(":")[0]
        return f"{container.name} has not started{f' ({reason})' if reason not in ('', one.word) else ''}"
    if container.runs:
        ready = "" if container.is_ready in (None, True) else ", not ready"
        since = max(_NO_TIME, one.known_until - newest.started_at) if newest.started_at is not None else None
        has = "has" if one.known_until >= one.at else "had"
        return f"{container.name} {has} been running for {length(since)}{ready}"
    if container.wait is None:
        return f"{container.name} ended at {clock(newest.ended_at)}"
    reason = "" if container.wait.reason == one.word else f", {container.wait.reason}"
    return f"{container.name} waits since {clock(newest.ended_at)}{reason}"


def _why(one: Explanation, clock: Clock) -> list[str]:
    """Return why containers do not start or are not ready, and why they ended last; for a gone pod, who ended it."""
    if one.is_gone:
        ended = [each for each in one.changes if each.ends_pod]
        return [f"{each.what}, at {clock(each.at)}" for each in ended[-1:]]
    is_over = one.phase in ("Succeeded", "Failed")
    failed = [f"the pod failed: {one.reason}: {one.message}"] if one.phase == "Failed" and one.reason else []
    awaited = one.awaited
    stays = [
        f"{each.name} does not start: {_shortened(each.why_not)}"
        for each in one.containers
        if each.why_not and not is_over and not (awaited is not None and each.waits_for_init)
    ]
    if awaited is not None and not is_over:
        stays.append(_initializing(one, awaited, clock))
    return (
        failed
        + stays
        + _unready(one, clock)
        + [
            f"{each.name} ended at {clock(each.last_end.instance.ended_at)}: {_whose(each.last_end.cause)}"
            for each in one.containers
            if each.last_end is not None and _explains(each, each.last_end, one)
        ]
    )


def _shortened(why_not: str) -> str:
    """Return the reason why a container does not start, with the innermost error in its message."""
    reason, _, message = why_not.partition(": ")
    return f"{reason}: {innermost(message)}" if message else reason


def _explains(container: Explained, end: End, one: Explanation) -> bool:
    """Return whether a container's last end helps to explain the pod's current state.

    It does not help if the container has finished successfully, or is ready and has run for so long since then that a
    kubelet would have reset its back-off.
    """
    goes_on = container.runs or container.wait is not None or container.why_not
    if end.cause.kind == "exit 0" and (container.is_finished_init or one.phase == "Succeeded" or not goes_on):
        return False
    newest = container.newest
    begun = newest.started_at if newest is not None and container.runs else None
    return begun is None or container.is_ready is False or one.at - begun < _HEALTHY


def _initializing(one: Explanation, awaited: Explained, clock: Clock) -> str:
    """Return which init container the other containers wait for, and its state."""
    others = [each.name for each in one.containers if each.waits_for_init and each.name != awaited.name]
    begun = awaited.newest.started_at if awaited.newest is not None else None
    how = f"has been running since {clock(begun)}" if awaited.runs else "has not finished"
    return f"{', '.join(others)} wait{'s' if len(others) == 1 else ''} for init container {awaited.name}, which {how}"


def _unready(one: Explanation, clock: Clock) -> list[str]:
    """Return the last output of the probes of running containers that are not ready."""
    said = []
    for each in one.containers:
        begun = each.newest.started_at if each.newest is not None else None
        if not each.runs or each.is_ready is not False or begun is None:
            continue
        failures = [
            seen
            for seen in one.records.events
            if (seen.reason, seen.container) == ("Unhealthy", each.name) and seen.last >= begun
        ]
        if newest := max(failures, key=lambda seen: seen.last, default=None):
            often = f" ({newest.count} times since {clock(newest.first)})" if newest.count > 1 else ""
            said.append(f"{each.name} is not ready: {clipped(one_line(newest.message), _SENTENCE)}{often}")
    return said


def _whose(cause: Cause) -> str:
    match cause.by:
        case "itself":
            return f"{cause.words} by itself" if _PLAIN.fullmatch(cause.words) else f"{cause.words} (by itself)"
        case "unknown":
            return cause.words
        case by if by == FOREIGN_SIGNAL:
            return f"{cause.words}, ended by {by}"
        case _ if cause.kind in NAMED_BY_ITS_WORDS:
            return cause.words
        case _:
            return f"{cause.words} (decided by {cause.by})"


def _next(one: Explanation, clock: Clock, unserved: str) -> list[str]:
    if one.is_gone:
        return ["nothing: it is gone"]
    said = [unserved] if unserved else [_under_way(each, clock) for each in one.under_way]
    if not unserved and one.unserved is not None:
        lacked = f"no {one.unserved.lacks} served this node"
        said = [f"{lacked}: nothing of this happened until {clock(one.unserved.ended)}"]
    is_served = not unserved and one.unserved is None
    said += [_due(wait, one, clock, is_served=is_served) for wait in one.waits]
    if one.deadline is not None and one.deadline > one.at:  # once it has passed, the kill is under way
        said.append(f"it fails at {clock(one.deadline)}, when its active deadline has passed")
    if one.is_being_deleted:
        said.append(_removal(one, clock))
    if said:
        return said
    if was_rejected(one.phase, one.message):
        return ["nothing: its node has rejected it, and is not asked again; delete it and apply it anew"]
    if one.phase in ("Succeeded", "Failed"):
        return ["nothing: it has finished"]
    if one.awaited is not None and one.awaited.runs:
        return [f"the next containers start when init container {one.awaited.name} has finished or is ready"]
    if (
        one.phase in ("Running", "")
        and any(each.runs for each in one.containers)
        and not any(map(_awaits, one.containers))
    ):
        return ["nothing is due: it runs until something happens"]
    return ["nothing is due: it waits for something to happen (`syncpod describe pod`)"]


def _awaits(container: Explained) -> bool:
    """Return whether a container has yet to start; False if it has ended for good."""
    return not container.runs and (container.newest is None or bool(container.wait is not None or container.why_not))


def _removal(one: Explanation, clock: Clock) -> str:
    """Return how a pod that is being deleted ends, and what follows it."""
    ends = one.grace_ends
    if ends is None:
        said = "its containers are ended within its grace period, and then it is removed"
    elif ends > one.at:
        said = f"its containers are killed at {clock(ends)}, when its grace period ends, and then it is removed"
    else:
        said = f"its grace period ended at {clock(ends)}: its containers are killed, and then it is removed"
    return f"{said}; the pod of this name that was applied meanwhile follows" if one.is_followed else said


def _under_way(step: StepUnderWay, clock: Clock) -> str:
    what, last_try, failure = step.what.partition("; last try: ")
    if "…" in failure:  # it was cut for the Temporal UI; Why and the changes have the whole text
        last_try = failure = ""
    doing = f"; {step.doing}" if step.doing else ""
    if step.step == "pull_image" and not doing:
        doing = "; it may still wait for other pulls (`syncpod describe pod`)"
    return f"under way since {clock(step.since)}: {what}{last_try}{failure}{doing}"


def what_is_due(wait: Wait, one: Explanation) -> str:
    """Return the event at the end of a wait, such as `app starts again`; "again" only if it has run before."""
    if wait.reason.startswith(_PULLS):
        return f"the image of {wait.subject} is pulled again"
    if wait.is_of_a_kill:
        return f"{wait.subject} is killed again"
    if wait.subject == RESTART_OF_ALL:
        return "all containers start again"
    if is_rejection(wait, one):
        return "the node is asked again whether it admits the pod"
    container = next((each for each in one.containers if each.name == wait.subject), None)
    if container is None:
        return f"{wait.subject} is tried again"
    has_run = container.has_run or wait.reason == Fact.CRASH_LOOP
    return f"{wait.subject} starts again" if has_run else f"the start of {wait.subject} is tried again"


def is_rejection(wait: Wait, one: Explanation) -> bool:
    """Return whether a rejected pod waits here until its node checks again whether to admit it."""
    return wait.subject == _SANDBOX and was_rejected(one.phase, one.message)


def _due(wait: Wait, one: Explanation, clock: Clock, *, is_served: bool) -> str:
    what = what_is_due(wait, one)
    if wait.until is None:
        return f"{what} when an operator asks for it: {wait.reason}: {wait.message}"
    left = wait.until - one.at
    if not is_served:
        since = "not before" if left > timedelta(0) else "due since"
        return f"{what} then, {since} {clock(wait.until)} ({wait.reason})"
    when = (
        f"in {length(left)}, at {clock(wait.until)}" if left > timedelta(0) else f"now, due since {clock(wait.until)}"
    )
    sooner = ", or as soon as it exists" if _MISSING.search(wait.message) else ""
    if is_rejection(wait, one):
        sooner = ", or as soon as it has room for it or its worker starts anew"
    return f"{what} {when}{sooner} ({wait.reason})"


# --- a container ------------------------------------------------------------------------------------------------------


def _container(
    one: Explanation, container: Explained, clock: Clock, log_dir: Path, has_log: HasLog, wide: int | None
) -> list[str]:
    newest = container.newest
    ends = container.ends
    image = f", image {newest.image}" if newest is not None and newest.image else ""
    ended = ends[-1].instance.image if ends else ""
    if image and ended and newest is not None and ended != newest.image:
        image = f"{image} now, {ended} when it ended last"
    count = {0: _no_end(container, one, clock), 1: "ended once", 2: "ended twice"}.get(
        len(ends), f"ended {len(ends)} times"
    )
    shown = [paint(f"Container {container.name} {count}{image}", "bold")]
    if not ends:
        return shown
    for sentence in patterns(ends, changed=one.changed, span=length, clock=clock):
        first, *rest = wrapped(sentence, wide and wide - 4)
        shown += [f"  - {first}", *(f"    {line}" for line in rest)]
    picked = _shown(ends)
    if more := len(ends) - len(picked):
        left = "1 more end is" if more == 1 else f"{more} more ends are"
        shown.append(f"  {left} not shown, the first of {clock(ends[0].instance.ended_at)} (-o json has all)")
    rows: list[tuple[str, ...]] = [("RESTART", "STARTED", "RAN", "ENDED", "WHY", "DECIDED BY", "WAITED", "LOG")]
    rows += [_row(end, container, one, clock, has_log) for end in picked]
    shown += [f"  {line}" for line in table(rows, wide=wide and wide - 2, cut=_CUT, below=_BELOW)]
    return [*shown, *_last_words(ends[-1], one, log_dir, has_log)]


_CUT: Final = (4, 5, 6)
"""The columns WHY, DECIDED BY and WAITED: their texts are cut where a terminal is too narrow."""
_BELOW: Final = (4, 5, 1)
"""The columns WHY, DECIDED BY and STARTED: they are printed below their row if the table is still too wide."""


def _no_end(container: Explained, one: Explanation, clock: Clock) -> str:
    """Return a clause for a container without an end in the table: it has not ended, or not in the requested time."""
    if earlier := [each for each in container.instances if each.has_ended]:
        return f"has not ended in this time, last at {clock(earlier[-1].ended_at)}"
    return "has never ended" if one.known_until >= one.at else f"had never ended by {clock(one.known_until)}"


def _shown(ends: Sequence[End]) -> list[End]:
    """Return the newest ends, after the last end of each cause that these lack; at most ENDS_SHOWN of either."""
    newest = {end.cause.kind: place for place, end in enumerate(ends)}
    recent = range(max(0, len(ends) - ENDS_SHOWN), len(ends))
    others = sorted(place for place in newest.values() if place not in recent)
    return [ends[place] for place in (*others[-ENDS_SHOWN:], *recent)]


def _row(end: End, container: Explained, one: Explanation, clock: Clock, has_log: HasLog) -> tuple[str, ...]:
    instance = end.instance
    # There was no wait: the container runs again in another sandbox.
    had_finished = container.is_init and end.cause.kind == "exit 0" and not end.back_off
    return (
        str(instance.restart),
        "never" if instance.never_ran else clock(instance.started_at) if instance.started_at is not None else "-",
        length(instance.ran_for) if instance.ran_for is not None else "-",
        clock(instance.ended_at),
        end.cause.words,
        end.cause.by,
        "-" if had_finished else _waited(end, one),
        _log(instance, has_log),
    )


def _log(instance: Instance, has_log: HasLog) -> str:
    """Return where an instance's log is: `file`, `end kept` (in the journal), or `-`.

    An instance that never ran has `-`, although some runtimes make an empty file for it.
    """
    if instance.never_ran:
        return "-"
    return "file" if has_log(instance.container, instance.restart) else "end kept" if instance.log_end else "-"


def _waited(end: End, one: Explanation) -> str:
    """Return how long the next start waited, its back-off, who cut it short, and how long the node lacked something."""
    waited = length(end.waited) if end.waited is not None else "-"
    why = [f"back-off {end.back_off}"] if end.back_off else []
    why += ["an operator cut it short"] if end.cut_short else []
    if end.instance.ended_at is not None and end.next_start is not None:
        away: dict[str, timedelta] = {}
        for each in one.absences:
            spent = each.of(end.instance.ended_at, end.next_start)
            away[each.lacks] = away.get(each.lacks, _NO_TIME) + spent
        why += [f"no {lacking} for {length(spent)}" for lacking, spent in away.items() if spent >= timedelta(seconds=1)]
    return f"{waited} ({', '.join(why)})" if why else waited


def _last_words(end: End, one: Explanation, log_dir: Path, has_log: HasLog) -> list[str]:
    instance, life = end.instance, one.records.life
    if instance.never_ran:
        return [f"  Instance {instance.restart} could not be started, so it has no log"]
    path = log_dir / f"{life.namespace}_{life.name}_{life.uid}" / instance.container / f"{instance.restart}.log"
    where = str(path) if has_log(instance.container, instance.restart) else "its log file no longer exists"
    said = instance.log_end.strip("\n").splitlines()
    if not said:
        return [f"  Instance {instance.restart} logged nothing ({where})"]
    return [f"  Instance {instance.restart} logged last ({where}):", *(f"    {line}" for line in said[-_LOG_LINES:])]


# --- the rest ---------------------------------------------------------------------------------------------------------


def _changes(one: Explanation, clock: Clock, wide: int | None) -> list[str]:
    """Return the changes to the pod, and the times without a worker or server, in the order of their times."""
    newest = one.changes[-CHANGES_SHOWN:]
    changes = newest if newest == one.changes else (one.changes[0], *newest[1:])  # the first change made the pod
    told = [(each.at, f"{_short(each.what, wide)}{_repeated(each, clock)}") for each in changes]
    told += [(each.begun, absence(each, clock)) for each in one.absences[-ABSENCES_SHOWN:]]
    more = len(one.changes) + len(one.absences) - len(told)
    left = "1 earlier one is" if more == 1 else f"{more} earlier ones are"
    head = f"Changes and failures{f' ({left} not shown: `-o json` has all)' if more else ''}:"
    rows = [(clock(at), what) for at, what in sorted(told, key=lambda each: each[0])]
    width = max(len(at) for at, _ in rows)
    shown = [head]
    for at, what in rows:
        first, *rest = wrapped(what, wide and wide - width - 5)
        shown += [f"  {at:<{width}}   {printable(first)}", *(f"{'':<{width + 5}}{printable(line)}" for line in rest)]
    return shown


def _short(what: str, wide: int | None) -> str:
    return what if wide is None else clipped(what, _SENTENCE)


def _repeated(change: OutsideChange, clock: Clock) -> str:
    return f" ({change.times} times since {clock(change.first)})" if change.times > 1 else ""


def _other_life(records: LifeRecords, clock: Clock) -> str:
    ends = sum(each.has_ended for each in records.instances)
    return f"{lifetime(records, clock)}, {ends} end{'s' if ends != 1 else ''} (uid {records.life.uid})"


def lifetime(records: LifeRecords, clock: Clock) -> str:
    """Return the begin and the end of a pod's life, as text."""
    until = f"to {clock(records.gone)}" if records.gone is not None else "until now"
    return f"{clock(records.begun)} {until}"


_WHY: Final = {
    "stopped": "the previous one was stopped",
    "died": "the previous one had died",
    "machine": "the machine was rebooted",
}


def absence(one: Absence, clock: Callable[[datetime], str]) -> str:
    """Return an absence in a sentence: `no worker for 29s, until 14:02:40: the previous one had died`."""
    seconds = (one.ended - one.begun).total_seconds()
    length = f"{seconds:.1f}s" if seconds < 10 else short_duration(one.ended - one.begun)
    why = _WHY.get(one.how, "")
    return f"no {one.lacks} for {length}, until {clock(one.ended)}{f': {why}' if why else ''}"
