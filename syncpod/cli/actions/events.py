"""The work of ``syncpod events``: the events of pods."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from syncpod.api.views.events import HEADER, WIDE, PodEvent, by_time, cells_of, document, events_of
from syncpod.api.views.text import GAP, Columns
from syncpod.cli.console import paint, remark, say
from syncpod.cli.failure import BadInput
from syncpod.cli.machine.own_journal import with_gone
from syncpod.cli.temporal.ended_workflows import end_of
from syncpod.cli.view.documents import print_documents
from syncpod.cli.view.sorting import in_order, sort_path

if TYPE_CHECKING:
    from syncpod.cli.view.jsonpath import Path

_MOST_ASKED = 5
"""Maximum number of orphans whose workflows' ends are queried from the server."""


def ends_of_workflows(orphans: Sequence[Mapping[str, Any]]) -> list[PodEvent]:
    """Return an event about the end of each orphan's workflow, for the first _MOST_ASKED orphans."""
    found = []
    for pod in orphans[:_MOST_ASKED]:
        metadata = pod["metadata"]
        ended = end_of(metadata.get("namespace", ""), metadata["name"])
        if ended is not None:
            at, message = ended.at.isoformat(), f"Its workflow {ended.how}"
            event = {"type": "Warning", "reason": "WorkflowEnded", "message": message, "container": ""}
            found += events_of(pod, [{**event, "count": 1, "first": at, "last": at}])
    return found


def path_of_order(sort_by: str, *, watch: bool) -> Path | None:
    """Return the path of ``--sort-by``; None = the flag is not given. Raises BadInput, also for a watch."""
    if not sort_by:
        return None
    if watch:
        raise BadInput("--sort-by: a watch prints events in the order in which they come")

    return sort_path(sort_by)


def print_once(printer: Printer, found: Sequence[PodEvent], output: str, where: str, *, is_whole: bool = True) -> None:
    """Print events. If there are none, and `is_whole` (all pods answered), print a remark about that."""
    if output in ("json", "yaml"):
        printer.print_whole(found)
    elif found:
        printer.print(found)
    elif is_whole:
        remark(f"No events found{where}.")


def with_gone_pods(
    events: Sequence[PodEvent],
    server: tuple[str, str],
    namespace: str | None,
    names: Sequence[str],
    types: frozenset[str],
) -> list[PodEvent]:
    """Return these events, and the journal's events of pods that are gone from its node, the newest last."""
    found = with_gone(events, server, namespace, names, datetime.now(UTC))
    return by_time([event for event in found if event.record.type in types])


class Printer:
    """Prints events, and later only those that are new or repeated."""

    def __init__(self, output: str, *, namespaces: bool, headers: bool, order: Path | None) -> None:
        """`order`: the path in an Event to sort by; None = the newest is last."""
        self._output = output
        self._order = order
        self.namespaces = namespaces
        self._headers = headers
        self._table = Columns()
        self._printed: dict[tuple[str, ...], tuple[int, datetime]] = {}

    def print_whole(self, found: Sequence[PodEvent]) -> None:
        """Print all events as one document."""
        found = self._sorted(found)

        print_documents([document(event) for event in found], self._output, single=False)

    def print(self, found: Sequence[PodEvent]) -> None:
        """Print the events that are new, or have been repeated since they were printed."""
        found = self._sorted(found)
        news = [event for event in found if self._printed.get(event.key) != (event.record.count, event.last)]
        # Earlier keys are kept: a pod that does not answer once must not have its events printed again.
        self._printed |= {event.key: (event.record.count, event.last) for event in found}
        if news:
            self._write(news)

    def _sorted(self, found: Sequence[PodEvent]) -> Sequence[PodEvent]:
        if self._order is None:
            return found

        return in_order(found, self._order, document)

    def _write(self, news: Sequence[PodEvent]) -> None:
        match self._output:
            case "json":
                for event in news:
                    say(json.dumps(document(event), indent=4))
            case "yaml":
                for event in news:
                    say("---")
                    print_documents([document(event)], "yaml", single=True)
            case "name":
                say("\n".join(f"event/{event.name}" for event in news))
            case _:
                wide = self._output == "wide"
                now = datetime.now(UTC)
                shown = lines(
                    news, now, wide=wide, namespaces=self.namespaces, headers=self._headers, table=self._table
                )
                self._headers = False
                say("\n".join(shown))


def lines(
    events: Sequence[PodEvent], now: datetime, *, wide: bool, namespaces: bool, headers: bool, table: Columns
) -> list[str]:
    """Return the lines of events, aligned with the earlier lines of `table`. Warnings are coloured on a terminal."""
    rows = [[*((event.namespace,) if namespaces else ()), *cells_of(event, now, wide=wide)] for event in events]
    head = [[*(("NAMESPACE",) if namespaces else ()), *(WIDE if wide else HEADER)]] if headers else []
    aligned = table.align([*head, *rows])
    at = 2 if namespaces else 1
    for line, row in zip(aligned[len(head) :], rows, strict=True):
        line[at] = paint("Warning", "yellow") + line[at][len("Warning") :] if row[at] == "Warning" else line[at]
    return [GAP.join(line).rstrip() for line in aligned]
