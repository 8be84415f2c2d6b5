"""Lists of objects as ``get`` prints them, whether a node or a fleet has them.

This module prints tables, names, documents and the changes of a watch; the caller finds the rows. Mirrors kubectl's
pkg/cmd/get/get.go, v1.36: an empty line separates the tables of two kinds, and a watch that finds no object prints
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from syncpod.api.views.text import Columns
from syncpod.cli.console import remark, say
from syncpod.cli.input.kind_words import Kind
from syncpod.cli.view.documents import is_of_documents, print_documents
from syncpod.cli.view.label_columns import LabelColumns, read_label_columns
from syncpod.cli.view.live_table import LiveTable, can_redraw
from syncpod.cli.view.rows import Row, painted
from syncpod.cli.view.sorting import in_order

if TYPE_CHECKING:
    from syncpod.api.field_selector import FieldSelector
    from syncpod.api.label_selector import Selector
    from syncpod.cli.view.jsonpath import Path

Listed: TypeAlias = Kind | Literal["Node"]
"""A kind that a node's `get` lists."""

_TIMES: Final = frozenset({"AGE", "SINCE"})
"""Columns that change with time alone, which a watch ignores."""


@dataclass(frozen=True)
class Form:
    """How objects are printed."""

    namespace: str | None
    """None = all: then each line begins with its namespace."""
    conditions: Selector
    fields: FieldSelector
    query: Mapping[str, str]
    """Both selectors as they were given, as query parameters of a node's API."""
    output: str
    headers: bool
    labels: LabelColumns
    order: Path | None
    """The field to sort by; None = the order in which the objects are found."""
    with_kind: bool
    """Whether each name in a table is printed with its kind, because there are several kinds."""
    is_named: bool
    """Whether objects are requested by name."""
    single: bool
    """Whether exactly one name is requested."""
    watch: bool

    @property
    def wide(self) -> bool:
        """Whether a table has all its columns."""
        return self.output == "wide"

    @property
    def is_table(self) -> bool:
        """Whether a table is printed, and not names or documents."""
        return self.output in ("", "wide")

    @property
    def of_documents(self) -> bool:
        """Whether whole objects are printed, and not tables or names."""
        return is_of_documents(self.output)

    @property
    def needs_documents(self) -> bool:
        """Whether whole objects are needed: to print them, select or sort them, or show their labels."""
        chooses = bool(self.conditions.requirements or self.fields.fields or self.order)
        return self.of_documents or chooses or bool(self.labels.header)

    def chosen(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows whose objects match the label selector and the field selector."""
        fields = self.fields if self.fields.fields else None
        return [
            row
            for row in rows
            if self.conditions.matches(row.labels) and (fields is None or fields.matches(row.document))
        ]

    def head(self, columns: Sequence[str], wide: Sequence[str]) -> tuple[str, ...]:
        """Return the names of a table's columns, for ``-o wide`` with the `wide` ones."""
        return (*columns, *(wide if self.wide else ()))


def selecting(namespace: str | None, conditions: Selector, fields: FieldSelector) -> Form:
    """Return a form that prints nothing, and only finds the objects of a namespace that meet the conditions."""
    return Form(
        namespace=namespace,
        conditions=conditions,
        fields=fields,
        query={},
        output="name",
        headers=False,
        labels=read_label_columns((), "name", whole=False),
        order=None,
        with_kind=False,
        is_named=False,
        single=False,
        watch=False,
    )


@dataclass
class FoundObjects:
    """The objects of one kind that were found."""

    resource: str
    """The resource as it is printed before an object's name: ``pod``, ``deployment.apps``."""
    header: tuple[str, ...] = ()
    """The names of the columns that are printed."""
    rows: Sequence[Row] = ()
    missing: list[str] = field(default_factory=list)
    """A message for each name that is missing, or cannot be read."""
    notes: list[str] = field(default_factory=list)
    """Remarks printed below the table."""
    is_namespaced: bool = True
    nothing: str = ""
    """Printed if there is no object of this kind and no other kind is requested; "" = kubectl's sentence."""
    pause: float = 1.0
    """Seconds until a watch finds the objects again."""


class ListingPrinter:
    """Prints the objects of one kind after another, and the changes of a kind that is watched."""

    def __init__(self, form: Form) -> None:
        """Print nothing yet."""
        self.form = form
        self.missing: list[str] = []
        """A message for each name that is missing, of all kinds so far."""
        self.has_begun = False
        self._documents: list[dict[str, Any]] = []
        self._nothing: list[str] = []
        self._has_printed = False
        self._table, self._headers = Columns(), form.headers
        self._known: dict[tuple[str, ...], object] = {}
        self._live: LiveTable | None = None
        self._drawing = ExitStack()

    def __enter__(self) -> Self:
        """Return this printer; leaving the block ends a table that is redrawn in place."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the table that was drawn last on the screen."""
        self._drawing.__exit__(kind, error, at)

    def begin(self, found: FoundObjects) -> bool:
        """Print the objects of one kind, or keep their documents for `end`; return whether a watch of them goes on."""
        form = self.form
        self.has_begun = True
        self.missing += found.missing
        self._nothing.append("" if found.rows or found.notes else found.nothing or self._none_found(found))
        goes_on = form.watch and not self.missing
        self._table, self._headers, self._known = Columns(), form.headers, {}
        if goes_on and form.is_table and can_redraw():
            self._remark(found)
            self._live = self._drawing.enter_context(
                LiveTable(lambda rows, table: self._lines(found, rows, table, headers=form.headers))
            )
            self._live.show(found.rows)
            return True
        if form.of_documents:
            self._documents += [dict(row.document) for row in self._in_order(found.rows)]
        else:
            if found.rows and self._has_printed and form.is_table:
                say()
            self._print_changes(found)
        self._remark(found)
        return goes_on

    def go_on(self, found: FoundObjects) -> None:
        """Show the changes of the kind that was printed last."""
        if self._live is not None:
            self._live.show(found.rows)
        else:
            self._print_changes(found)

    def end(self) -> None:
        """Print the documents of all kinds, or that there is nothing."""
        form = self.form
        if form.of_documents:
            print_documents(self._documents, form.output, single=form.single, headers=form.headers)
        elif form.is_table and not form.is_named and not form.watch and all(self._nothing):
            several = f"No resources found{self._where}"
            remark(self._nothing[0] if len(self._nothing) == 1 else several)

    @property
    def _where(self) -> str:
        return "" if self.form.namespace is None else f" in {self.form.namespace} namespace."

    def _none_found(self, found: FoundObjects) -> str:
        return f"No resources found{self._where if found.is_namespaced else ''}"

    def _remark(self, found: FoundObjects) -> None:
        for note in found.notes:
            remark(note)

    def _print_changes(self, found: FoundObjects) -> None:
        """Print the rows that are new, or have changed apart from ages."""
        before, self._known = self._known, {(*row.key, row.place): self._steady(found, row) for row in found.rows}
        changed = [row for row in found.rows if self._known[*row.key, row.place] != before.get((*row.key, row.place))]
        if changed:
            say("\n".join(self._lines(found, self._in_order(changed), self._table, headers=self._headers)))
            self._headers, self._has_printed = False, True

    def _in_order(self, rows: Sequence[Row]) -> Sequence[Row]:
        if self.form.order is None:
            return rows
        return in_order(rows, self.form.order, lambda row: row.document)

    def _steady(self, found: FoundObjects, row: Row) -> object:
        steady = row.steady
        if steady is None:
            steady = tuple(cell for name, cell in zip(found.header, row.cells, strict=False) if name not in _TIMES)
        return steady, self.form.labels.cells(row.labels)

    def _lines(self, found: FoundObjects, rows: Sequence[Row], table: Columns, *, headers: bool) -> list[str]:
        """Return the table's lines, aligned with the earlier lines of `table`; or the objects' names."""
        form = self.form
        if form.output == "name":
            return [f"{found.resource}/{row.name}" for row in rows]
        is_spaced = form.namespace is None and found.is_namespaced
        head = (*(("NAMESPACE",) if is_spaced else ()), *found.header, *form.labels.header)
        cells = []
        for row in rows:
            name, *rest = row.cells[: len(found.header)]
            space = (row.key[0],) if is_spaced else ()
            named = f"{found.resource}/{name}" if form.with_kind else name
            cells.append((*space, named, *rest, *form.labels.cells(row.labels)))
        return painted(head if headers else (), cells, rows, status_at=2 + is_spaced, table=table)


def show(listing: ListingPrinter, find: Callable[[], FoundObjects]) -> None:
    """Print the objects of one kind that `find` returns; a watch calls `find` again and again."""
    found = find()
    goes_on = listing.begin(found)
    while goes_on:
        time.sleep(found.pause)
        found = find()
        listing.go_on(found)
