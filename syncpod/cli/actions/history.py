"""Reads and prints what was decided and done for a pod: its workflow tells it, or Temporal's own events."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from syncpod.api.client import Reply
from syncpod.cli.console import program, remark, say
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import note_orphans
from syncpod.cli.view.history_lines import lines
from syncpod.journal.records import HistoryEntry
from syncpod.node.orphan_mark import why_orphaned


@dataclass(frozen=True)
class PodHistory:
    """The history of one pod."""

    documents: Sequence[Mapping[str, Any]]
    """The entries as JSON."""
    entries: Sequence[HistoryEntry]
    is_of_events: bool = False
    """Whether it has only Temporal's events, without exits and decisions, because the pod does not answer."""
    is_of_orphan: bool = False
    """Whether the pod runs without a workflow."""


def read_history(namespace: str, name: str) -> PodHistory | None:
    """Return the history of a pod; None if Temporal has nothing of it. Print a note about an orphan. Raises Failure."""

    def read(reply: Reply, reports: Sequence[Mapping[str, Any]]) -> tuple[PodHistory, Mapping[str, Any]] | None:
        if not reports:
            return None
        told, pod = reports[0]["history"], reports[0]["pod"]
        is_orphan = bool(why_orphaned(pod))
        return PodHistory(told, _entries(told), is_of_events="recorded" in reports[0], is_of_orphan=is_orphan), pod

    with NodeApi() as api:
        found = api.reports(namespace, [name], "pod", "history", query=[("ended", "true")], read=read)
    if found is None:
        return None
    history, pod = found
    if history.is_of_orphan:
        note_orphans([pod])
    return history


def print_history(history: PodHistory, namespace: str, name: str, output: str, *, headers: bool) -> None:
    """Print a history as a table or as JSON, after notes about parts that it lacks."""
    if history.is_of_events:
        remark(
            "Note: the pod does not answer; this is what Temporal recorded of its last run, without exits and decisions"
        )
    if any(each.subject == "adopt" and each.kind == "update" for each in history.entries):
        earlier = shlex.join((program(), "explain", name, *(() if namespace == "default" else ("-n", namespace))))
        remark(f"Note: `{earlier}` shows what happened before the pod was adopted")
    if output == "json":
        say(json.dumps(history.documents, indent=4))
    else:
        say("\n".join(lines(history.entries, headers=headers)))


def _entries(told: Sequence[Mapping[str, Any]]) -> list[HistoryEntry]:
    """Return the entries, read without the message models, whose import takes longer than the rest of the command.

    Raises KeyError, TypeError, ValueError for incomplete entries, which a worker of another version may send.
    """
    return [
        HistoryEntry(
            at=datetime.fromisoformat(each["at"]),
            took_ms=each["tookMs"],
            **{
                part: each[part] for part in ("kind", "subject", "container", "restart", "reason", "outcome", "attempt")
            },
        )
        for each in told
    ]
