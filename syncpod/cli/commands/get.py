"""``syncpod get``: list pods, nodes, and this machine's ConfigMaps and Secrets."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from syncpod.api.views.text import Columns
from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import named, read_field_selector, read_selector, with_likely_kind
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.input.options import AllNamespaces, FieldConditions, Filenames, NamespaceOrFiles, Selector, Things
from syncpod.cli.orphans import note_orphans
from syncpod.cli.view.documents import is_of_documents, known_output, print_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from temporalio.client import Client

    from syncpod.api.field_selector import FieldSelector
    from syncpod.api.label_selector import Selector as Conditions
    from syncpod.cli.fetched import FetchedPod
    from syncpod.cli.input.arguments import Kind
    from syncpod.cli.view.jsonpath import Path
    from syncpod.cli.view.label_columns import LabelColumns
    from syncpod.cli.view.pod_table import PodRow
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
    from syncpod.cli.input.arguments import named_nodes
    from syncpod.cli.view.label_columns import read_label_columns

    output = known_output(output, _OUTPUTS)
    if watch and is_of_documents(output):
        raise BadInput(f"--watch prints tables and names, not {output.partition('=')[0]}")
    labels = read_label_columns(label_columns or [], output, whole=show_labels)
    if watch:
        from syncpod.cli.streams import interrupts

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
    from syncpod.cli.input.manifests import named_in

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
    """Print pods, or add them to the documents; return a message for each that does not exist."""
    rows = None if request.watch else _told(names, request)
    if rows is None:
        return _ask_for_pods(names, request, found)
    chosen = request.arranged(rows, lambda one: one.document)
    missing = _show(names, chosen, found, _Printer(request))
    note_orphans(one.document for one in chosen)
    if behind := [one for one in chosen if not one.current]:
        pods = "a pod" if len(behind) == 1 else f"{len(behind)} pods"
        remark(
            f"Note: the worker of this node has just begun, and has not come to all pods yet; what is marked with ? is "
            f"what was last recorded of {pods}"
        )
    return missing


def _told(names: Sequence[str], request: _Request) -> list[PodRow] | None:
    """Return the pods as this machine's worker lists them; None if the server has to be asked.

    A table may have pods of which only what was recorded last is known: their cells are marked. Nothing else has them.
    """
    from syncpod.cli.machine.own_pods import table_of_pods
    from syncpod.cli.view.pod_table import rows_of

    whole = not request.is_table or request.order is not None or bool(request.fields.fields)
    told = table_of_pods(request.namespace, names, selectors=request.selectors, whole=whole)
    rows = None if told is None else rows_of(told)
    return None if rows is None or (whole and not all(one.current for one in rows)) else rows


def _show(names: Sequence[str], pods: Sequence[PodRow], found: _Found, printer: _Printer) -> list[str]:
    """Print pods, or add them to the documents; return a message for each of the names that is not among them."""
    request = printer.request
    found.add("Pod", [dict(one.document) for one in pods], request.output)
    printer.print(pods)
    return _missing(names, pods, request)


def _missing(names: Sequence[str], pods: Sequence[PodRow], request: _Request) -> list[str]:
    missing = sorted(set(names) - {one.name for one in pods})
    return [no_such_pod(name, request.namespace or "") for name in missing]


def _ask_for_pods(names: Sequence[str], request: _Request, found: _Found) -> list[str]:
    """Do the same with what the server answers, and keep watching if that is asked for."""
    import asyncio

    from syncpod.cli.temporal import session

    async def work(client: Client) -> list[str]:
        from syncpod.cli.temporal.pods import does_not_answer, note_absent_nodes
        from syncpod.cli.view.documents import picks_fields
        from syncpod.cli.view.live_table import can_redraw

        printer = _Printer(request)
        fetched_pods = await _find(client, names, request)
        if request.watch and request.is_table and can_redraw():
            return await _redraw(client, names, request, fetched_pods)
        missing = _show(names, _rows(fetched_pods), found, printer)
        note_orphans(fetched.document for fetched in fetched_pods)
        note_absent_nodes(fetched_pods)
        if picks_fields(request.output):  # from which nobody could tell that there is no more than their names
            missing += [str(does_not_answer(one)) for one in fetched_pods if not one.current and not one.wire]
        while request.watch and not missing:
            await asyncio.sleep(_WATCH_SECONDS)
            printer.print_changes(_rows(await _find(client, names, request)))
        return missing

    return session.run(work)


async def _redraw(client: Client, names: Sequence[str], request: _Request, found: Sequence[FetchedPod]) -> list[str]:
    """Draw the table on the terminal again and again; return a message for each name that is not there at first."""
    import asyncio

    from syncpod.cli.temporal.pods import note_absent_nodes
    from syncpod.cli.view.live_table import LiveTable

    if missing := _missing(names, _rows(found), request):
        return missing
    note_absent_nodes(found)
    with LiveTable(lambda pods, table: _lines(pods, request, table, headers=request.headers)) as live:
        while True:
            live.show(_rows(found))
            await asyncio.sleep(_WATCH_SECONDS)
            found = await _find(client, names, request)


async def _find(client: Client, names: Sequence[str], request: _Request) -> list[FetchedPod]:
    import asyncio

    from syncpod.cli.temporal.pods import list_pods, lone_pods, read_pod, with_last_state

    if names:
        namespace = request.namespace or "default"
        read = await asyncio.gather(*(read_pod(client, namespace, name) for name in names))
        found = [fetched for fetched in read if fetched is not None]
        if len(found) < len(read):
            found += await lone_pods(client, namespace, names)
    else:
        found = await list_pods(client, request.namespace, request.conditions)
    if is_of_documents(request.output):
        found = [with_last_state(fetched) for fetched in found]
    return request.arranged(found, lambda one: one.document)


def _rows(fetched_pods: Sequence[FetchedPod]) -> list[PodRow]:
    from syncpod.cli.view.pod_table import row_of

    return [row_of(fetched.listed) for fetched in fetched_pods]


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
    from syncpod.cli.view.pod_table import coloured_lines, header

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
