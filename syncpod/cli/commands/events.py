"""``syncpod events``: the events of pods."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncpod.api.client import Reply
from syncpod.api.views.events import PodEvent, by_time, events_of
from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_names
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.input.options import AllNamespaces, Namespace, NoHeaders, PodNames, kind_of
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import note_orphans
from syncpod.cli.streams import interrupts
from syncpod.node.orphan_mark import why_orphaned

if TYPE_CHECKING:
    pass

Types = Annotated[
    str, typer.Option("--types", metavar="Normal,Warning", help="Only events of these types.", show_default="both")
]
SortBy = Annotated[
    str, typer.Option("--sort-by", metavar="FIELD", help="Sort by this field of an Event: .firstTimestamp, .count.")
]
_OUTPUTS = ("wide", "json", "yaml", "name")
_TYPES = ("Normal", "Warning")
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
    from syncpod.cli.actions.events import Printer, ends_of_workflows, path_of_order, print_once, with_gone_pods

    printer = Printer(
        output, namespaces=all_namespaces, headers=not no_headers, order=path_of_order(sort_by, watch=watch)
    )
    where = "" if all_namespaces else f" in {namespace} namespace"
    source = _Source(None if all_namespaces else namespace, names, wanted)
    if watch:
        interrupts.enable()
    with NodeApi() as api:
        found = source.read(api)
        note_orphans(source.orphans)
        if not watch:
            found = with_gone_pods(found, api.server, source.namespace, names, wanted)
            source.require(found)
            if source.orphans and "Warning" in wanted:
                found = by_time([*found, *ends_of_workflows(source.orphans)])
            if source.journaled:
                remark(source.journal_note())
            print_once(printer, found, output, where, is_whole=not source.silent)
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


def _check(names: Sequence[str], output: str, *, all_namespaces: bool) -> None:
    """Raise BadInput for flags that exclude each other, or mean nothing."""
    if names and all_namespaces:
        raise BadInput("a named pod is in one namespace: leave out --all-namespaces")
    if output and output not in _OUTPUTS:
        raise BadInput(f"--output: must be {', '.join(_OUTPUTS)}, not {output}")


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
