"""The output of ``syncpod explain node``: restless pods, the node's events, due actions. Values in, text out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from syncpod.api.views.durations import age
from syncpod.api.views.layout import pairs, table, wrapped
from syncpod.cli.view.explanation import absence, what_is_due
from syncpod.journal.causes import End
from syncpod.journal.explain import Explanation, explain
from syncpod.journal.reading import JournalSummary
from syncpod.journal.records import Absence
from syncpod.node.orphan_mark import STATUS
from syncpod.node.recorded_events import NodeEvent

_SHOWN: Final = 10
"""Maximum number of events of the node, and of due actions, that are shown; `-o json` has all."""
_CUT: Final = (3, 4, 5)
"""The columns WHY, DECIDED BY and NOW. On a narrow terminal, their texts are cut; if that does not suffice, they are
printed below the row. A pod's name is never cut, since the next command takes it."""


def lines(
    summary: JournalSummary,
    events: Sequence[NodeEvent],
    absences: Sequence[Absence],
    now: datetime,
    since: datetime,
    *,
    node: str,
    served: Sequence[str],
    wide: int | None = None,
    orphans: Collection[str] = (),
    unserved: str = "",
) -> list[str]:
    """Return one screen about a node's pods since a moment. `served` has sentences about the node itself.

    Lines have at most `wide` characters, so that long texts are cut; None = no limit. `orphans` are the UIDs of pods
    that run without a workflow, for which nothing is due. `unserved` is the thing that must happen before the node can
    act.
    """
    shown = [
        *pairs(
            [
                ("Node", [node, *served]),
                ("Since", [_clock(since)]),
                ("Pods", [f"{summary.there} present, {summary.gone} removed since then"]),
                ("Ends", [f"{summary.ends} of containers since then"]),
            ],
            wide=wide,
        )
    ]
    shown += ["", *_restless(summary, now, since, wide, orphans)] if summary.restless else []
    narrower = wide and wide - 2
    happened = [(each.last, f"{each.message}{_repeated(each)}") for each in events[-_SHOWN:]]
    happened += [(each.begun, absence(each, _clock)) for each in absences[-_SHOWN:]]
    if happened:
        shown += ["", "What happened to the node:"]
        for at, what in sorted(happened):
            first, *rest = wrapped(what, wide and wide - len(_clock(at)) - 5)
            shown += [f"  {_clock(at)}   {first}", *(f"{'':<{len(_clock(at)) + 5}}{line}" for line in rest)]
    if due := _due(summary, now, orphans):
        more = f" ({len(due) - _SHOWN} later ones are not shown)" if len(due) > _SHOWN else ""
        begins = f": nothing before {unserved}, and then" if unserved else ""
        at_once = now if unserved else None
        rows = [
            (
                "at once" if at_once and at <= at_once else _clock(at),
                f"{one.records.life.namespace}/{one.records.life.name}",
                what,
            )
            for at, one, what in due
        ]
        shown += ["", f"Next{begins}{more}:", *(f"  {line}" for line in table(rows[:_SHOWN], wide=narrower, cut=(2,)))]
    return shown


def silence_of_server(since: datetime) -> str:
    """Return the sentence that the Temporal server has not answered the node's worker since a moment."""
    return f"the Temporal server has not answered since {_clock(since)}: nothing happens to its pods until it does"


def _restless(
    summary: JournalSummary, now: datetime, since: datetime, wide: int | None, orphans: Collection[str]
) -> list[str]:
    lives = Counter((each.life.namespace, each.life.name) for each, _ in summary.restless)
    rows = [("POD", "ENDS", "LAST", "WHY", "DECIDED BY", "NOW")]
    for explanation, ends in _explained(summary, now, since):
        last, life = _last(explanation), explanation.records.life
        rows.append(
            (
                f"{life.namespace}/{life.name}{f' ({life.uid})' if lives[life.namespace, life.name] > 1 else ''}",
                str(ends),
                f"{age(last.instance.ended_at, now)} ago" if last is not None else "-",
                f"{last.instance.container}: {last.cause.words}" if last is not None else "-",
                last.cause.by if last is not None else "-",
                STATUS if life.uid in orphans and not explanation.is_gone else _now(explanation),
            )
        )
    return table(rows, wide=wide, cut=_CUT, below=_CUT)


def _repeated(event: NodeEvent) -> str:
    return f" ({event.times} times since {_clock(event.first)})" if event.times > 1 else ""


def _due(summary: JournalSummary, now: datetime, orphans: Collection[str]) -> list[tuple[datetime, Explanation, str]]:
    """Return the actions that are due, soonest first: when, for which pod, and which action. `orphans` are left out."""
    found = []
    for each in (due for due in summary.due if due.life.uid not in orphans):
        one = explain(each, now)
        for wait in one.waits:
            if wait.until is not None:
                found.append((wait.until, one, f"{what_is_due(wait, one)} ({wait.reason})"))
        if one.grace_ends is not None:
            found.append((one.grace_ends, one, "its running containers are killed: its grace period ends"))
        if one.deadline is not None and one.deadline > now:
            found.append((one.deadline, one, "the pod fails: its active deadline has passed"))
    return sorted(found, key=lambda each: each[0])


def document(
    summary: JournalSummary,
    events: Sequence[NodeEvent],
    absences: Sequence[Absence],
    now: datetime,
    since: datetime,
    served: Sequence[str],
    orphans: Collection[str] = (),
) -> dict[str, Any]:
    """Return the facts of the screen as JSON; `orphans` as in `lines`."""
    return {
        "served": "; ".join(served),
        "since": since.astimezone(UTC).isoformat(),
        "pods": summary.there,
        "gone": summary.gone,
        "ends": summary.ends,
        "restless": [
            {
                "namespace": explanation.records.life.namespace,
                "name": explanation.records.life.name,
                "uid": explanation.records.life.uid,
                "ends": ends,
                "container": last.instance.container if (last := _last(explanation)) is not None else "",
                "lastEnd": last.cause.words if last is not None else "",
                "decidedBy": last.cause.by if last is not None else "",
                "now": STATUS
                if explanation.records.life.uid in orphans and not explanation.is_gone
                else _now(explanation),
            }
            for explanation, ends in _explained(summary, now, since)
        ],
        "events": [
            {"at": _stamp(each.last), "first": _stamp(each.first), "times": each.times, "what": each.message}
            for each in events
        ],
        "absences": [{"begun": _stamp(each.begun), "ended": _stamp(each.ended), "how": each.how} for each in absences],
        "next": [
            {"at": _stamp(at), "namespace": one.records.life.namespace, "name": one.records.life.name, "what": what}
            for at, one, what in _due(summary, now, orphans)
        ],
    }


def _explained(summary: JournalSummary, now: datetime, since: datetime) -> list[tuple[Explanation, int]]:
    return [(explain(each, now, since=since), ends) for each, ends in summary.restless]


def _last(explanation: Explanation) -> End | None:
    ends = [end for container in explanation.containers for end in container.ends if end.instance.ended_at is not None]
    return max(ends, key=lambda end: end.instance.ended_at or explanation.at, default=None)


def _now(explanation: Explanation) -> str:
    if explanation.is_gone:
        return "gone"
    if explanation.is_being_deleted:
        return "being deleted"
    waits = [each.reason for each in explanation.waits]
    return waits[0] if waits else explanation.word


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def _clock(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
