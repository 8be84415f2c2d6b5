"""``syncpod get``: list pods, nodes, and this machine's ConfigMaps and Secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import named, named_nodes, with_likely_kind
from syncpod.cli.input.kind_words import Kind
from syncpod.cli.input.manifests import named_in
from syncpod.cli.input.options import (
    AllNamespaces,
    FieldConditions,
    Filenames,
    LabelKeys,
    ListOutput,
    NamespaceOrFiles,
    NoHeaders,
    Selector,
    ShowLabels,
    SortBy,
    Things,
    Watch,
)
from syncpod.cli.listing import ListingPrinter, read_form
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    pass


def get(
    what: Things = None,
    namespace: NamespaceOrFiles = "",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    output: ListOutput = "",
    watch: Watch = False,
    no_headers: NoHeaders = False,
    label_columns: LabelKeys = None,
    show_labels: ShowLabels = False,
    field_selector: FieldConditions = "",
    sort_by: SortBy = "",
    filename: Filenames = None,
) -> None:
    r"""List pods, nodes, or this machine's ConfigMaps and Secrets.

    Name them as with kubectl: `pod web`, `pod/web`, just `web`; `cm settings`, `secret/keys`, `nodes`; `-f FILE`.

    A JSONPath is written as with kubectl: text, and paths in braces, `{.metadata.name}{"\n"}`; for several objects,
    `{.items[*].metadata.name}`, or for each one `{range .items[*]}{.metadata.name}{"\n"}{end}`. A path has fields,
    indices, `[*]` and filters, `[?(@.type=="Ready")]`; `..`, slices and unions are not supported.
    """
    if filename:
        what, namespace = _of_manifests(filename, what, namespace)
    nodes = named_nodes(what or [])
    things: Mapping[Kind | Literal["Node"], Sequence[str]]
    things = {"Node": nodes} if nodes is not None else dict(named(what or []).items())
    form = read_form(
        things,
        namespace,
        all_namespaces=all_namespaces,
        selector=selector,
        field_selector=field_selector,
        output=output,
        watch=watch,
        no_headers=no_headers,
        label_columns=label_columns or [],
        show_labels=show_labels,
        sort_by=sort_by,
    )
    if watch:
        interrupts.enable()
    from syncpod.cli.actions.get import show_objects, show_pods

    with ListingPrinter(form) as listing:
        for kind, names in things.items():
            if kind == "Pod":
                show_pods(listing, names, {"labelSelector": selector, "fieldSelector": field_selector})
            elif kind == "Node":
                from syncpod.cli.actions.node_listing import show_nodes

                show_nodes(listing, names)
            else:
                show_objects(listing, kind, names)
        listing.end()
    if listing.missing:
        raise Failure(with_likely_kind(listing.missing, what or []))


def _of_manifests(filename: Sequence[str], what: list[str] | None, namespace: str) -> tuple[list[str], str]:
    """Return the words that name the objects of manifests, and their namespace. Raises BadInput if `what` has names."""
    if what:
        raise BadInput("name what to list, or give its manifest with -f, not both")
    pods, objects = named_in(filename, namespace)
    namespaces = {each for each, _ in pods} | {each.namespace for each in objects}
    if len(namespaces) > 1:
        raise BadInput(f"-f: is of several namespaces ({', '.join(sorted(namespaces))}): choose one with --namespace")
    words = [f"pod/{name}" for _, name in pods] + [f"{each.kind.lower()}/{each.name}" for each in objects]
    return words, next(iter(namespaces), "default")
