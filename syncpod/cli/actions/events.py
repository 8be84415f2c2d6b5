"""Reads and prints the events of pods: of those that are open, of named ones that ended, and of those that are gone."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

from syncpod.api.client import Reply
from syncpod.api.views.events import HEADER, WIDE, PodEvent, by_time, cells_of, document, events_of
from syncpod.api.views.text import GAP, Columns
from syncpod.cli.console import paint, remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.machine import own_journal
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import note_orphans
from syncpod.cli.view.documents import print_documents
from syncpod.cli.view.sorting import in_order
from syncpod.node.orphan_mark import why_orphaned

if TYPE_CHECKING:
    from syncpod.cli.view.jsonpath import Path

_WATCH_SECONDS: Final = 1.0


def read_events(source: EventSource) -> list[PodEvent]:
    """Return the events of a source and of pods that are gone, the newest last; print notes about orphans.

    Raises Failure, also if a named pod does not exist and the journal has no events of it.
    """
    with NodeApi() as api:
        found = source.read(api)
        note_orphans(source.orphans)
        found = source.with_gone_pods(api, found)
    source.require(found)
    return found


def print_events(found: Sequence[PodEvent], source: EventSource, printer: EventPrinter) -> None:
    """Print what `read_events` found. Raises Failure if pods did not answer, after the events of the others."""
    if source.journaled:
        remark(source.journal_note())
    if printer.output in ("json", "yaml"):
        printer.print_whole(found)
    elif found:
        printer.print(found)
    elif not source.silent:
        remark(f"No events found{'' if source.namespace is None else f' in {source.namespace} namespace'}.")
    if source.silent:
        raise Failure(source.gap(source.silent))


def watch_events(source: EventSource, printer: EventPrinter) -> NoReturn:
    """Print the events of a source, and each new one, until the user interrupts it. Raises Failure."""
    with NodeApi() as api:
        found = source.read(api)
        note_orphans(source.orphans)
        source.require(found)
        if found:
            printer.print(found)
        while True:
            source.note_silent()
            time.sleep(_WATCH_SECONDS)
            printer.print(source.read(api))


class EventSource:
    """Reads events: of the named pods, even ended ones; without names, of all open pods in a namespace (None = all)."""

    def __init__(self, namespace: str | None, names: Sequence[str], types: frozenset[str]) -> None:
        """Read nothing yet."""
        self.namespace = namespace
        self._names = list(dict.fromkeys(names))
        self._types = types
        self._before: frozenset[tuple[str, str]] = frozenset()
        """The pods of the last listing. Pods that the next listing lacks are read once more, for their last events."""
        self.silent: tuple[str, ...] = ()
        """The names of the pods that did not answer, and whose events are not known."""
        self.journaled: tuple[str, ...] = ()
        """The names of the pods that did not answer, but whose events are in their node's journal on this machine."""
        self._missing: tuple[str, ...] = ()
        """The names for which no pod was found."""
        self._why: tuple[str, ...] = ()
        """Why pods did not answer: which of their nodes are away, and which are busy."""
        self._noted: frozenset[str] = frozenset()
        self.orphans: Sequence[Mapping[str, Any]] = ()
        """The pods of the last listing that run without a workflow."""

    def read(self, api: NodeApi) -> list[PodEvent]:
        """Return all events, the newest last. Raises Failure."""
        if self._names:
            reports = self._reports(api, self.namespace or "default", self._names)
            self._missing = tuple(name for name in self._names if name not in {name for (_, name), _ in reports})
        else:
            reports = self._reports(api, self.namespace)
            there = frozenset(key for key, _ in reports)
            for namespace in sorted({namespace for namespace, _ in self._before - there}):
                gone = [name for each, name in self._before - there if each == namespace]
                reports += self._reports(api, namespace, gone)
            self._before = there
        self.silent = tuple(sorted(name for (_, name), found in reports if found is None))
        return by_time([event for _, found in reports for event in found or () if event.record.type in self._types])

    def _reports(
        self, api: NodeApi, namespace: str | None, names: Sequence[str] = ()
    ) -> list[tuple[tuple[str, str], list[PodEvent] | None]]:
        """Return the events of each pod, with its namespace and name; None for a pod whose events are not known."""

        def read(reply: Reply, reports: Sequence[Mapping[str, Any]]) -> list[tuple[tuple[str, str], Any]]:
            self._why = reply.warnings
            self.orphans = [one["pod"] for one in reports if why_orphaned(one["pod"])]
            told_last = [one["metadata"]["name"] for one in reports if "recorded" in one and "events" in one]
            self.journaled = tuple(sorted(told_last))
            return [
                (
                    (one["metadata"]["namespace"], one["metadata"]["name"]),
                    events_of(one["pod"], one["events"]) if "events" in one else None,
                )
                for one in reports
            ]

        query = [("ended", "true")] if names else []
        return api.reports(namespace, names, "pod", "events", query=query, read=read)

    def with_gone_pods(self, api: NodeApi, events: Sequence[PodEvent]) -> list[PodEvent]:
        """Return these events, and the journal's events of pods that are gone from its node, the newest last."""
        found = own_journal.with_gone(events, api.server, self.namespace, self._names, datetime.now(UTC))
        return by_time([event for event in found if event.record.type in self._types])

    def require(self, found: Sequence[PodEvent]) -> None:
        """Raise Failure if a named pod does not exist, and no event of an earlier pod of its name was found."""
        for name in self._missing:
            if not any(event.pod == name for event in found):
                raise Failure(no_such_pod(name, self.namespace or ""))

    def gap(self, silent: Sequence[str]) -> str:
        """Return the names of the pods whose events could not be read, and why."""
        return f"without the events of {', '.join(silent)}: {'; '.join(self._why)}"

    def journal_note(self) -> str:
        """Return the note about the pods whose events come from the journal of a node that does not answer now."""
        return f"Note: {'; '.join(self._why)}; the events of {', '.join(self.journaled)} are those of its journal"

    def note_silent(self) -> None:
        """Print a note about pods that have stopped answering since the last note."""
        if new := [name for name in self.silent if name not in self._noted]:
            remark(f"Note: {self.gap(new)}")
        self._noted = frozenset(self.silent)


class EventPrinter:
    """Prints events, and later only those that are new or repeated."""

    def __init__(self, output: str, *, namespaces: bool, headers: bool, order: Path | None) -> None:
        """`order`: the path in an Event to sort by; None = the newest is last."""
        self.output = output
        self._order = order
        self._namespaces = namespaces
        self._headers = headers
        self._table = Columns()
        self._printed: dict[tuple[str, ...], tuple[int, datetime]] = {}

    def print_whole(self, found: Sequence[PodEvent]) -> None:
        """Print all events as one document."""
        found = self._sorted(found)
        print_documents([document(event) for event in found], self.output, single=False)

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
        match self.output:
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
                wide = self.output == "wide"
                now = datetime.now(UTC)
                shown = lines(
                    news, now, wide=wide, namespaces=self._namespaces, headers=self._headers, table=self._table
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
