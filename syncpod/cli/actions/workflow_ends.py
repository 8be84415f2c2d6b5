"""How the workflows of orphans have ended, as events and as an entry of a history, from the Temporal server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from syncpod.api.views.events import PodEvent, by_time, events_of
from syncpod.cli.temporal.ended_workflows import end_of
from syncpod.journal.records import HistoryEntry
from syncpod.messages.queries import write_history

if TYPE_CHECKING:
    from syncpod.cli.actions.history import PodHistory

_MOST_QUERIED: Final = 5
"""Maximum number of orphans whose workflows' ends are queried from the server."""


def with_ends_of_workflows(events: Sequence[PodEvent], orphans: Sequence[Mapping[str, Any]]) -> list[PodEvent]:
    """Return these events, and one about the end of each orphan's workflow, for the first _MOST_QUERIED orphans."""
    found = [*events]
    for pod in orphans[:_MOST_QUERIED]:
        metadata = pod["metadata"]
        ended = end_of(metadata.get("namespace", ""), metadata["name"])
        if ended is not None:
            at, message = ended.at.isoformat(), f"Its workflow {ended.how}"
            event = {"type": "Warning", "reason": "WorkflowEnded", "message": message, "container": ""}
            found += events_of(pod, [{**event, "count": 1, "first": at, "last": at}])
    return by_time(found)


def with_end_of_workflow(history: PodHistory, namespace: str, name: str) -> PodHistory:
    """Return the history of an orphan with the end of its workflow; without it, if the server does not have it."""
    ended = end_of(namespace, name)
    if ended is None:
        return history
    how, _, by = ended.how.removeprefix("was ").partition(" by ")
    end = HistoryEntry(at=ended.at, kind="workflow", subject="end", outcome=how, reason=by and f"by {by}")
    entries = [*history.entries, end]
    return replace(history, entries=entries, documents=write_history(entries))
