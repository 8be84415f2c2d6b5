"""``syncpod events``: the events of pods."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncpod.api.client import Reply
from syncpod.api.views.events import HEADER, WIDE, PodEvent, by_time, cells_of, document, events_of
from syncpod.api.views.text import GAP, Columns
from syncpod.cli.console import paint, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_names
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.input.options import AllNamespaces, Namespace, NoHeaders, PodNames, kind_of
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import note_orphans
from syncpod.cli.streams import interrupts
from syncpod.node.orphan_mark import why_orphaned

if TYPE_CHECKING:
    from syncpod.cli.view.jsonpath import Path

Types = Annotated[
    str, typer.Option("--types", metavar="Normal,Warning", help="Only events of these types.", show_default="both")
]
SortBy = Annotated[
    str, typer.Option("--sort-by", metavar="FIELD", help="Sort by this field of an Event: .firstTimestamp, .count.")
]
_OUTPUTS = ("wide", "json", "yaml", "name")
_TYPES = ("Normal", "Warning")
_MOST_ASKED = 5
"""Maximum number of orphans whose workflows' ends are queried from the server."""
_WATCH_SECONDS = 1.0


def events(
    what: PodNames = None,
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    about: Annotated[
        str, typer.Option("--for", metavar="pod/NAME", help="Only events of this pod.", callback=kind_of)
    ] = "",
    types: Types = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep watching, and print each new event.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="wide|json|yaml|name", help="The output format.")
    ] = "",
    no_headers: NoHeaders = False,
    sort_by: SortBy = "",
) -> None:
    """List the events of pods, the newest last.

    Each pod keeps its last hundred events; a repeated event is counted. The container that an event is about stands in
    parentheses behind the pod. A named pod may have ended: its events are there for as long as Temporal keeps its
    workflow. Other pods that are gone from this machine's node, such as earlier pods of the same name, are marked
    `(gone)`: their events of the last hour come from the node's journal.
    """
    names = pod_names(what or []) + _named_by_for(about)
    _check(names, output, all_namespaces=all_namespaces)
    wanted = _types(types)
    printer = _Printer(output, namespaces=all_namespaces, headers=not no_headers, order=_order(sort_by, watch=watch))
    where = "" if all_namespaces else f" in {namespace} namespace"
    source = _Source(None if all_namespaces else namespace, names, wanted)
    if watch:
        interrupts.enable()
    with NodeApi() as api:
        found = source.read(api)
        note_orphans(source.orphans)
        if not watch:
            found = _with_gone(found, api.server, source.namespace, names, wanted)
            source.require(found)
            if source.orphans and "Warning" in wanted:
                found = by_time([*found, *_ends_of_workflows(source.orphans)])
            if source.journaled:
                remark(source.journal_note())
            _print_once(printer, found, output, where, is_whole=not source.silent)
            if source.silent:
                raise Failure(source.gap(source.silent))
            return
        source.require(found)
        if found:
            printer.print(found)
        while True:
            source.note_silent()
            time.sleep(_WATCH_SECONDS)
            printer.print(source.read(api))


def _ends_of_workflows(orphans: Sequence[Mapping[str, Any]]) -> list[PodEvent]:
    """Return an event about the end of each orphan's workflow, for the first _MOST_ASKED orphans."""
    from syncpod.cli.temporal.ended_workflows import end_of

    found = []
    for pod in orphans[:_MOST_ASKED]:
        metadata = pod["metadata"]
        ended = end_of(metadata.get("namespace", ""), metadata["name"])
        if ended is not None:
            at, message = ended.at.isoformat(), f"Its workflow {ended.how}"
            event = {"type": "Warning", "reason": "WorkflowEnded", "message": message, "container": ""}
            found += events_of(pod, [{**event, "count": 1, "first": at, "last": at}])
    return found


def _order(sort_by: str, *, watch: bool) -> Path | None:
    """Return the path of ``--sort-by``; None = the flag is not given. Raises BadInput, also for a watch."""
    if not sort_by:
        return None
    if watch:
        raise BadInput("--sort-by: a watch prints events in the order in which they come")
    from syncpod.cli.view.sorting import sort_path

    return sort_path(sort_by)


def _check(names: Sequence[str], output: str, *, all_namespaces: bool) -> None:
    """Raise BadInput for flags that exclude each other, or mean nothing."""
    if names and all_namespaces:
        raise BadInput("a named pod is in one namespace: leave out --all-namespaces")
    if output and output not in _OUTPUTS:
        raise BadInput(f"--output: must be {', '.join(_OUTPUTS)}, not {output}")


def _print_once(
    printer: _Printer, found: Sequence[PodEvent], output: str, where: str, *, is_whole: bool = True
) -> None:
    """Print events. If there are none, and `is_whole` (all pods answered), print a remark about that."""
    if output in ("json", "yaml"):
        printer.print_whole(found)
    elif found:
        printer.print(found)
    elif is_whole:
        remark(f"No events found{where}.")


def _with_gone(
    events: Sequence[PodEvent],
    server: tuple[str, str],
    namespace: str | None,
    names: Sequence[str],
    types: frozenset[str],
) -> list[PodEvent]:
    """Return these events, and the journal's events of pods that are gone from its node, the newest last."""
    from syncpod.cli.machine.own_journal import with_gone

    found = with_gone(events, server, namespace, names, datetime.now(UTC))
    return by_time([event for event in found if event.record.type in types])


def _named_by_for(about: str) -> list[str]:
    if not about:
        return []
    kind, slash, name = about.partition("/")
    if not (slash and kind and name):
        raise BadInput(f"--for: must be pod/NAME, not {about}")
    return pod_names([about])


def _types(text: str) -> frozenset[str]:
    known = {each.casefold(): each for each in _TYPES}
    wanted = [word.strip() for word in text.split(",")] if text else list(_TYPES)
    for word in wanted:
        if word.casefold() not in known:
            raise BadInput(f"--types: must be {' or '.join(_TYPES)}, or both with a comma, not {word!r}")
    return frozenset(known[word.casefold()] for word in wanted)


class _Source:
    """Reads events: of the named pods, even ended ones; without names, of all open pods in a namespace (None = all)."""

    def __init__(self, namespace: str | None, names: Sequence[str], types: frozenset[str]) -> None:
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


class _Printer:
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
        from syncpod.cli.view.documents import print_documents

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
        from syncpod.cli.view.sorting import in_order

        return in_order(found, self._order, document)

    def _write(self, news: Sequence[PodEvent]) -> None:
        match self._output:
            case "json":
                for event in news:
                    say(json.dumps(document(event), indent=4))
            case "yaml":
                from syncpod.cli.view.documents import print_documents

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
