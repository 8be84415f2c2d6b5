"""``syncpod get``: list pods, nodes, and this machine's ConfigMaps and Secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from syncpod.cli.failure import Failure
from syncpod.cli.input.arguments import named, named_nodes, with_likely_kind
from syncpod.cli.input.deletion_request import words_of_files
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
from syncpod.cli.listing import Listed, read_form
from syncpod.cli.streams import interrupts


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
        from syncpod.cli.input.manifests import named_in

        what, namespace = words_of_files(what, partial(named_in, filename, namespace))
    things = _things(what or [])
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
    if "Node" in things:
        from syncpod.cli.actions.node_listing import list_nodes as list_things
    elif set(things) == {"Pod"}:
        from syncpod.cli.actions.get import list_pods as list_things
    else:
        from syncpod.cli.actions.object_listing import list_objects as list_things
    if missing := list_things(form, things):
        raise Failure(with_likely_kind(missing, what or []))


def _things(words: Sequence[str]) -> Mapping[Listed, Sequence[str]]:
    """Return the named objects by kind; a kind without names means all of the kind. Raises BadInput."""
    nodes = named_nodes(words)
    return {"Node": nodes} if nodes is not None else dict(named(words).items())
