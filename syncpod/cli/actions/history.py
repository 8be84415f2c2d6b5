"""The work of ``syncpod history``: what was decided and done for a pod, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from syncpod.cli.console import remark
from syncpod.cli.machine.own_journal import last_life
from syncpod.cli.temporal.ended_workflows import end_of
from syncpod.cli.view.explanation import Clock, lifetime
from syncpod.journal.records import SENDER, HistoryEntry
from syncpod.messages.queries import write_history

if TYPE_CHECKING:
    _Told = tuple[list[dict[str, Any]], Sequence[HistoryEntry], bool, Mapping[str, Any] | None]
    "The history as JSON, its records, whether it has only Temporal's events, and the pod; None = the pod is gone."


def end_of_workflow(namespace: str, name: str) -> list[HistoryEntry]:
    """Return the entry about the end of an orphan's workflow; [] if the server does not have it."""
    ended = end_of(namespace, name)
    if ended is None:
        return []
    how, _, by = ended.how.removeprefix("was ").partition(" by ")
    return [HistoryEntry(at=ended.at, kind="workflow", subject="end", outcome=how, reason=by and f"by {by}")]


def written_history(records: Sequence[HistoryEntry]) -> tuple[list[dict[str, Any]], Sequence[HistoryEntry]]:
    """Return the documents of entries, and the entries."""
    return write_history(records), records


def read_entries(told: Sequence[Mapping[str, Any]]) -> list[HistoryEntry]:
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


def journaled_history(server: tuple[str, str], namespace: str, name: str) -> list[HistoryEntry] | None:
    """Return the last life of a pod from this machine's journal, and print a note; None if the journal has nothing."""
    records = last_life(server, namespace, name)
    if records is None:
        return None
    lived = lifetime(records, Clock(datetime.now(UTC)))
    remark(
        f'Note: Temporal has nothing of pod "{name}" any more; this is what the node\'s journal has of its last life, '
        f"{lived}; `syncpod explain -n {namespace} {name}` says why it restarted"
    )
    return [line for line in records.lines if line.kind != SENDER]
