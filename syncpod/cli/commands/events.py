"""``syncpod events``: the events of pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names
from syncpod.cli.input.options import AllNamespaces, Namespace, NoHeaders, PodNames, kind_of
from syncpod.cli.streams import interrupts
from syncpod.cli.view.sorting import sort_path

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
    wanted, order = _types(types), _order(sort_by, watch=watch)
    if watch:
        interrupts.enable()
    from syncpod.cli.actions.events import EventPrinter, EventSource, print_events, read_events, watch_events

    source = EventSource(None if all_namespaces else namespace, names, wanted)
    printer = EventPrinter(output, namespaces=all_namespaces, headers=not no_headers, order=order)
    if watch:
        watch_events(source, printer)
    found = read_events(source)
    if source.orphans and "Warning" in wanted:
        from syncpod.cli.actions.workflow_ends import with_ends_of_workflows

        found = with_ends_of_workflows(found, source.orphans)
    print_events(found, source, printer)


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


def _order(sort_by: str, *, watch: bool) -> Path | None:
    """Return the path in an Event to sort by; None = the flag is not given. Raises BadInput, also for a watch."""
    if not sort_by:
        return None
    if watch:
        raise BadInput("--sort-by: a watch prints events in the order in which they come")
    return sort_path(sort_by)
