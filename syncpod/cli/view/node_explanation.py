"""What ``syncpod explain node`` prints: the pods whose containers ended most often. Values in, text out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from syncpod.cli.console import columns
from syncpod.cli.view.durations import age
from syncpod.cli.view.layout import pairs
from syncpod.journal.causes import End
from syncpod.journal.explain import Explanation, explain
from syncpod.journal.reading import NodeAccount


def lines(account: NodeAccount, now: datetime, since: datetime, *, node: str, served: str) -> list[str]:
    """Return one screen about a node's pods since a moment."""
    shown = [
        *pairs(
            [
                ("Node", [node, served]),
                ("Pods", [f"{account.there} there, {account.gone} gone since {_clock(since)}"]),
                ("Ends", [f"{account.ends} of containers since {_clock(since)}"]),
            ]
        )
    ]
    if not account.restless:
        return shown
    rows = [("POD", "ENDS", "LAST", "WHY", "DECIDED BY", "NOW")]
    for explanation, ends in _explained(account, now, since):
        last, life = _last(explanation), explanation.account.life
        rows.append(
            (
                f"{life.namespace}/{life.name}",
                str(ends),
                f"{age(last.instance.ended_at, now)} ago" if last is not None else "-",
                f"{last.instance.container}: {last.cause.words[:70]}" if last is not None else "-",
                last.cause.by if last is not None else "-",
                _now(explanation),
            )
        )
    return [*shown, "", *columns(rows)]


def document(account: NodeAccount, now: datetime, since: datetime, served: str) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "served": served,
        "since": since.astimezone(UTC).isoformat(),
        "pods": account.there,
        "gone": account.gone,
        "ends": account.ends,
        "restless": [
            {
                "namespace": explanation.account.life.namespace,
                "name": explanation.account.life.name,
                "uid": explanation.account.life.uid,
                "ends": ends,
                "container": last.instance.container if (last := _last(explanation)) is not None else "",
                "lastEnd": last.cause.words if last is not None else "",
                "decidedBy": last.cause.by if last is not None else "",
                "now": _now(explanation),
            }
            for explanation, ends in _explained(account, now, since)
        ],
    }


def _explained(account: NodeAccount, now: datetime, since: datetime) -> list[tuple[Explanation, int]]:
    return [(explain(each, now, since=since), ends) for each, ends in account.restless]


def _last(explanation: Explanation) -> End | None:
    ends = [end for container in explanation.containers for end in container.ends if end.instance.ended_at is not None]
    return max(ends, key=lambda end: end.instance.ended_at or explanation.at, default=None)


def _now(explanation: Explanation) -> str:
    if explanation.is_gone:
        return "gone"
    waits = [each.reason for each in explanation.waits]
    return waits[0] if waits else explanation.phase


def _clock(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
