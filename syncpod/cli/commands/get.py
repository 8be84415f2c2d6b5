"""``syncpod get``: list pods, nodes, and this machine's ConfigMaps and Secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from syncpod.api.listed import why_recorded
from syncpod.api.views.pod_columns import HEADER, WIDE
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import named, named_nodes, with_likely_kind
from syncpod.cli.input.kind_words import Kind
from syncpod.cli.input.kubectl_words import no_such_pod
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
from syncpod.cli.listing import Form, FoundObjects, ListingPrinter, read_form, show, show_async
from syncpod.cli.orphan_notes import orphan_notes
from syncpod.cli.streams import interrupts
from syncpod.cli.view.documents import picks_fields
from syncpod.cli.view.rows import Row, marked_note, rows_of
from syncpod.node.orphan_mark import why_orphaned

if TYPE_CHECKING:
    from syncpod.cli.node_api import NodeApi
    from syncpod.objects import Kind as ObjectKind


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
    with ListingPrinter(form) as listing:
        for kind, names in things.items():
            if kind == "Pod":
                _show_pods(listing, names, {"labelSelector": selector, "fieldSelector": field_selector})
            elif kind == "Node":
                _show_nodes(listing, names)
            else:
                _show_objects(listing, kind, names)
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


def _show_pods(listing: ListingPrinter, names: Sequence[str], selectors: Mapping[str, str]) -> None:
    """Print pods; `selectors` are query parameters of the node's API."""
    from syncpod.cli.node_api import NodeApi

    with NodeApi() as api:
        show(listing, lambda: _pods(api, names, selectors, listing.form))


def _pods(api: NodeApi, names: Sequence[str], selectors: Mapping[str, str], form: Form) -> FoundObjects:
    """Return the pods, with notes about those that did not answer or have no workflow. Raises Failure."""
    # Without whole objects, some rows may be the server's last records. A table marks them, a list of names cannot.
    whole = not form.is_table or form.order is not None
    reply = api.table("pods", form.namespace, names, {**selectors, "includeObject": "Object" if whole else ""})
    rows = rows_of(reply.document)
    missing = [no_such_pod(name, form.namespace or "") for name in sorted(set(names) - {one.name for one in rows})]
    notes = orphan_notes(one.document for one in rows)
    if marked := [one.name for one in rows if not one.current or (form.is_table and why_orphaned(one.document))]:
        notes.append(marked_note(reply.warnings, marked))
    if picks_fields(form.output):  # missing fields would look like empty ones
        missing += [f'pod "{one.name}" {why_recorded(one.document)}' for one in rows if _is_bare(one)]
    return FoundObjects("pod", form.head(HEADER, WIDE), rows, missing, notes)


def _is_bare(pod: Row) -> bool:
    """Return whether only the server's record of a pod is known, which has no spec."""
    return bool(why_recorded(pod.document)) and not pod.document["spec"].get("containers")


def _show_nodes(listing: ListingPrinter, names: Sequence[str]) -> None:
    from syncpod.cli.commands.node_listing import find_nodes
    from syncpod.cli.temporal import session

    session.run(lambda client: show_async(listing, lambda: find_nodes(client, names, listing)))


def _show_objects(listing: ListingPrinter, kind: ObjectKind, names: Sequence[str]) -> None:
    """Print the node's ConfigMaps or Secrets."""
    from syncpod.cli.machine.object_store import find
    from syncpod.cli.view.data_objects import HEADERS, row
    from syncpod.pod import pod_to_wire

    def objects() -> FoundObjects:
        found, missing = find(kind, names, listing.form.namespace, listing.form.conditions)
        now, documents = datetime.now(UTC), map(pod_to_wire, found)
        rows = [Row(row(one, now), document, steady=document) for one, document in zip(found, documents, strict=True)]
        return FoundObjects(kind.lower(), HEADERS[kind], listing.form.chosen(rows), missing)

    show(listing, objects)
