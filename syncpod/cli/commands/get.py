"""``syncpod get``: list pods, nodes, and this machine's ConfigMaps and Secrets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from syncpod.api.listed import why_recorded
from syncpod.api.views.text import Columns
from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import Kind, named, named_nodes, read_field_selector, read_selector, with_likely_kind
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.input.manifests import named_in
from syncpod.cli.input.options import AllNamespaces, FieldConditions, Filenames, NamespaceOrFiles, Selector, Things
from syncpod.cli.orphans import note_orphans
from syncpod.cli.streams import interrupts
from syncpod.cli.view.documents import is_of_documents, known_output, picks_fields, print_documents
from syncpod.cli.view.label_columns import LabelColumns, read_label_columns
from syncpod.cli.view.live_table import LiveTable, can_redraw
from syncpod.cli.view.pod_table import PodRow, coloured_lines, header, marked_note, rows_of
from syncpod.node.orphan_mark import why_orphaned

if TYPE_CHECKING:
    from syncpod.api.field_selector import FieldSelector
    from syncpod.api.label_selector import Selector as Conditions
    from syncpod.cli.node_api import NodeApi
    from syncpod.cli.view.jsonpath import Path
    from syncpod.objects import Kind as ObjectKind

_One = TypeVar("_One")
_OUTPUTS = ("wide", "json", "yaml", "name")
_WATCH_SECONDS = 1.0


Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="wide|json|yaml|name|jsonpath='{PATH}'|custom-columns=NAME:PATH",
        help="The output format.",
    ),
]
SortBy = Annotated[
    str, typer.Option("--sort-by", metavar="FIELD", help="Sort by this field: .metadata.creationTimestamp.")
]
LabelKeys = Annotated[
    list[str] | None,
    typer.Option("--label-columns", "-L", metavar="KEY,...", help="Show these labels as columns."),
]


def get(
    what: Things = None,
    namespace: NamespaceOrFiles = "",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    output: Output = "",
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", "-w", help="Keep watching: a terminal draws the table again, else each change is a line."
        ),
    ] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Do not print the column names.")] = False,
    label_columns: LabelKeys = None,
    show_labels: Annotated[bool, typer.Option("--show-labels", help="Show all labels in the last column.")] = False,
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
    output = known_output(output, _OUTPUTS)
    if watch and is_of_documents(output):
        raise BadInput(f"--watch prints tables and names, not {output.partition('=')[0]}")
    labels = read_label_columns(label_columns or [], output, whole=show_labels)
    if watch:
        interrupts.enable()
    if filename:
        what, namespace = _of_manifests(filename, what, namespace)
    if (nodes := named_nodes(what or [])) is not None:
        _require_names_alone({"--selector": selector, "--field-selector": field_selector, "--sort-by": sort_by})
        from syncpod.cli.commands.node_listing import get_nodes

        get_nodes(nodes, output, labels, headers=not no_headers, watch=watch)
        return
    things = named(what or [])
    conditions = read_selector(selector)
    fields = read_field_selector(field_selector, of_pods=set(things) == {"Pod"})
    order = _order(sort_by) if sort_by else None
    if watch and order is not None:
        raise BadInput("--sort-by: a watch prints changes in the order in which they come")
    _require_one_way(things, conditions, fields, all_namespaces=all_namespaces)
    if watch and len(things) > 1:
        raise BadInput("--watch works with one kind at a time")
    scope = None if all_namespaces else namespace or "default"
    texts = {"labelSelector": selector, "fieldSelector": field_selector}
    request = _Request(scope, texts, conditions, fields, order, output, labels, not no_headers, len(things) > 1, watch)
    if missing := _get(things, request):
        raise Failure(with_likely_kind(missing, what or []))


def _require_one_way(
    things: Mapping[Kind, Sequence[str]], conditions: Conditions, fields: FieldSelector, *, all_namespaces: bool
) -> None:
    """Raise BadInput if what to list is both named and chosen."""
    if any(things.values()) and fields.fields:
        raise BadInput("name what to list, or choose it with --field-selector, not both")
    if any(things.values()) and (conditions.requirements or all_namespaces):
        raise BadInput("name what to list, or choose it with --selector or --all-namespaces, not both")


def _require_names_alone(flags: Mapping[str, str]) -> None:
    """Raise BadInput if a flag is given that chooses among nodes, or sorts them."""
    if given := next((flag for flag, text in flags.items() if text), ""):
        raise BadInput(f"{given}: nodes are listed by name, or all of them")


def _of_manifests(filename: Sequence[str], what: list[str] | None, namespace: str) -> tuple[list[str], str]:
    """Return the words that name what is in manifests, and its namespace. Raises BadInput if `what` names something."""
    if what:
        raise BadInput("name what to list, or give its manifest with -f, not both")
    pods, objects = named_in(filename, namespace)
    namespaces = {each for each, _ in pods} | {each.namespace for each in objects}
    if len(namespaces) > 1:
        raise BadInput(f"-f: is of several namespaces ({', '.join(sorted(namespaces))}): choose one with --namespace")
    words = [f"pod/{name}" for _, name in pods] + [f"{each.kind.lower()}/{each.name}" for each in objects]
    return words, next(iter(namespaces), "default")


def _order(sort_by: str) -> Path:
    from syncpod.cli.view.sorting import sort_path

    return sort_path(sort_by)


def _get(things: Mapping[Kind, Sequence[str]], request: _Request) -> list[str]:
    """Print the named resources of each kind, else all; return a message for each that does not exist."""
    output, found, missing = request.output, _Found([], {}), []
    for kind, names in things.items():
        missing += _get_pods(names, request, found) if kind == "Pod" else _get_objects(kind, names, request, found)
    is_named = any(things.values())
    if is_of_documents(output):
        single = sum(map(len, things.values())) == 1
        print_documents(found.documents, output, single=single, headers=request.headers)
    elif output != "name" and not is_named and not any(found.counts.values()):
        where = "" if request.namespace is None else f" in {request.namespace} namespace."
        remark(f"No resources found{where}")
    return missing


@dataclass(frozen=True)
class _Request:
    """The request, apart from kinds and names."""

    namespace: str | None
    """None = all."""
    selectors: Mapping[str, str]
    """The two selectors as the node's API takes them."""
    conditions: Conditions
    fields: FieldSelector
    order: Path | None
    """What to sort by; None = namespace and name."""
    output: str
    labels: LabelColumns
    headers: bool
    with_kind: bool
    """Whether each name is printed with its kind, because there are several kinds."""
    watch: bool

    def arranged(self, found: Sequence[_One], document_of: Callable[[_One], Mapping[str, Any]]) -> list[_One]:
        """Return the found objects that the field selector selects, in the requested order."""
        chosen = [one for one in found if not self.fields.fields or self.fields.matches(document_of(one))]
        if self.order is None:
            return chosen
        from syncpod.cli.view.sorting import in_order

        return in_order(chosen, self.order, document_of)

    @property
    def is_table(self) -> bool:
        """Whether a table is asked for, and not names or documents."""
        return self.output in ("", "wide")

    @property
    def namespaces(self) -> bool:
        """Whether each line begins with the namespace."""
        return self.namespace is None


@dataclass
class _Found:
    """The objects that were found so far: documents to print at the end, and the number of each kind."""

    documents: list[dict[str, Any]]
    counts: dict[Kind, int]

    def add(self, kind: Kind, documents: Sequence[dict[str, Any]], output: str) -> None:
        """Count what was found of a kind; print an empty line before a second table, as kubectl does."""
        if documents and any(self.counts.values()) and output in ("", "wide"):
            say()
        self.counts[kind] = len(documents)
        self.documents += documents


# --- pods -------------------------------------------------------------------------------------------------------------


def _get_pods(names: Sequence[str], request: _Request, found: _Found) -> list[str]:
    """Print pods, or add them to the documents; return a message for each that does not exist.

    Keep watching if that is asked for.
    """
    from syncpod.cli.node_api import NodeApi

    with NodeApi() as api:
        printer = _Printer(request)
        pods, why = _find(api, names, request)
        missing = [
            no_such_pod(name, request.namespace or "") for name in sorted(set(names) - {one.name for one in pods})
        ]
        draws = request.watch and request.is_table and not missing and can_redraw()
        if not draws:
            found.add("Pod", [dict(one.document) for one in pods], request.output)
            printer.print(pods)
            note_orphans(one.document for one in pods)
        if marked := [one.name for one in pods if not one.current or (request.is_table and why_orphaned(one.document))]:
            remark(marked_note(why, marked))
        if draws:
            _redraw(api, names, request, pods)
        if picks_fields(request.output):  # from which nobody could tell that there is no more than their names
            missing += [f'pod "{one.name}" {why_recorded(one.document)}' for one in pods if _is_bare(one)]
        while request.watch and not missing:
            time.sleep(_WATCH_SECONDS)
            printer.print_changes(_find(api, names, request)[0])
    return missing


def _find(api: NodeApi, names: Sequence[str], request: _Request) -> tuple[list[PodRow], Sequence[str]]:
    """Return the pods in the requested order, and why some of them did not answer. Raises Failure."""
    # Names alone would not show the mark of a pod of which only what was recorded last is known.
    whole = not request.is_table or request.order is not None
    query = {**request.selectors, "includeObject": "Object" if whole else ""}
    reply = api.table("pods", request.namespace, names, query)
    rows = rows_of(reply.document)
    if request.order is None:
        return rows, reply.warnings
    from syncpod.cli.view.sorting import in_order

    return in_order(rows, request.order, lambda one: one.document), reply.warnings


def _is_bare(pod: PodRow) -> bool:
    """Say whether nothing is known of a pod but what the server recorded."""
    return bool(why_recorded(pod.document)) and not pod.document["spec"].get("containers")


def _redraw(api: NodeApi, names: Sequence[str], request: _Request, pods: Sequence[PodRow]) -> NoReturn:
    """Draw the table on the terminal again and again."""
    with LiveTable(lambda rows, table: _lines(rows, request, table, headers=request.headers)) as live:
        while True:
            live.show(pods)
            time.sleep(_WATCH_SECONDS)
            pods, _ = _find(api, names, request)


class _Printer:
    """Prints pods, and later only those that have changed."""

    def __init__(self, request: _Request) -> None:
        self.request = request
        self._headers = request.headers
        self._printed: dict[tuple[str, str], tuple[str, ...]] = {}
        self._table = Columns()

    def print(self, pods: Sequence[PodRow]) -> None:
        """Print all pods, unless the output is documents, which are printed together at the end."""
        if not is_of_documents(self.request.output):
            self._print_lines(pods)
            self._remember(pods)

    def print_changes(self, pods: Sequence[PodRow]) -> None:
        """Print those whose line has changed, apart from the age."""
        before = dict(self._printed)
        self._remember(pods)
        self._headers = self._headers and not before
        self._print_lines([one for one in pods if self._printed[one.key] != before.get(one.key)])

    def _print_lines(self, pods: Sequence[PodRow]) -> None:
        if not pods:
            return
        if self.request.output == "name":
            lines = [f"pod/{one.name}" for one in pods]
        else:
            lines = _lines(pods, self.request, self._table, headers=self._headers)
        say("\n".join(lines))

    def _remember(self, pods: Sequence[PodRow]) -> None:
        self._printed = {one.key: (*one.steady, *self.request.labels.cells(one.labels)) for one in pods}


def _lines(pods: Sequence[PodRow], request: _Request, table: Columns, *, headers: bool) -> list[str]:
    """Return the table's lines, aligned with those that `table` has had before."""
    wide = request.output == "wide"
    return coloured_lines(
        header(wide=wide, namespaces=request.namespaces, labels=request.labels) if headers else (),
        pods,
        wide=wide,
        namespaces=request.namespaces,
        with_kind=request.with_kind,
        labels=request.labels,
        table=table,
    )


# --- configmaps and secrets -------------------------------------------------------------------------------------------


def _get_objects(kind: ObjectKind, names: Sequence[str], request: _Request, found: _Found) -> list[str]:
    """Print objects of one kind, or add them to the documents; return a message for each that does not exist."""
    from syncpod.cli.machine.object_store import find
    from syncpod.cli.view.object_table import changed_since, print_objects
    from syncpod.pod import pod_to_wire

    table = Columns()
    objects, missing = find(kind, names, request.namespace, request.conditions)
    objects = request.arranged(objects, pod_to_wire)
    found.add(kind, [pod_to_wire(one) for one in objects], request.output)
    if is_of_documents(request.output):
        return missing
    headers = request.headers
    form = request.output, request.labels
    print_objects(kind, objects, *form, headers, request.namespaces, request.with_kind, table)
    while request.watch and not missing:
        headers, before = headers and not objects, objects
        time.sleep(_WATCH_SECONDS)
        objects = request.arranged(find(kind, names, request.namespace, request.conditions)[0], pod_to_wire)
        changed = changed_since(before, objects)
        print_objects(kind, changed, *form, headers, request.namespaces, request.with_kind, table)
    return missing
