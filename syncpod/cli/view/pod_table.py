"""Pods as the lines of a table, from the rows that the node's API has rendered."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from syncpod.api.listed import ListedPod, OfPod
from syncpod.api.views.pod_columns import HEADER, WIDE
from syncpod.api.views.tables import pod_row
from syncpod.api.views.text import GAP, Columns, printable
from syncpod.cli.console import Colour, paint
from syncpod.cli.view.label_columns import LabelColumns

_NO_LABELS = LabelColumns()
_GOOD: Final = frozenset({"Running", "Completed", "Succeeded"})
_UNDERWAY: Final = frozenset({"Pending", "ContainerCreating", "PodInitializing", "Terminating", "NotReady"})


@dataclass(frozen=True)
class PodRow(OfPod):
    """One row of a Table of pods."""

    cells: tuple[str, ...]
    """All columns, also those that only ``-o wide`` shows."""
    document: Mapping[str, Any]
    """The row's object: the Pod, or its metadata alone."""

    @property
    def ready(self) -> str:
        """READY: ``1/2``."""
        return self.cells[1]

    @property
    def status(self) -> str:
        """STATUS."""
        return self.cells[2]

    @property
    def current(self) -> bool:
        """Whether the pod has answered; if not, its cells are marked."""
        return not self.status.endswith("?")

    @property
    def steady(self) -> tuple[str, ...]:
        """The cells that change only if the pod does: no age."""
        restarts, ip = self.cells[3].partition(" ")[0], self.cells[5]
        return str(self.document["metadata"].get("uid", "")), self.ready, self.status, restarts, ip


def rows_of(table: Mapping[str, Any]) -> list[PodRow]:
    """Return the rows of a Table. Raises KeyError, TypeError if it is none."""
    return [PodRow(tuple(map(str, each["cells"])), each["object"]) for each in table["rows"]]


def row_of(shown: ListedPod, now: datetime | None = None) -> PodRow:
    """Return a pod's row, rendered here; the cells of one that did not answer are marked with ``?``."""
    rendered = pod_row(shown, now or datetime.now(UTC), whole=True)
    return PodRow(tuple(rendered["cells"]), rendered["object"])


def header(*, wide: bool, namespaces: bool, labels: LabelColumns = _NO_LABELS) -> tuple[str, ...]:
    """Return the names of the columns."""
    return (*(("NAMESPACE",) if namespaces else ()), *HEADER, *(WIDE if wide else ()), *labels.header)


def coloured_lines(
    head: Sequence[str],
    pods: Sequence[PodRow],
    *,
    wide: bool = False,
    namespaces: bool = False,
    with_kind: bool = False,
    labels: LabelColumns = _NO_LABELS,
    stream: TextIO | None = None,
    table: Columns | None = None,
) -> list[str]:
    """Return the table's lines; an empty `head` is left out. The status is coloured if `stream` takes colours.

    `with_kind` writes ``pod/`` before each name, for output with several kinds. The lines are aligned with those
    printed before to `table`.
    """
    rows = []
    for shown in pods:
        name, *rest = shown.cells if wide else shown.cells[: len(HEADER)]
        space = (shown.key[0],) if namespaces else ()
        rows.append((*space, f"pod/{name}" if with_kind else name, *rest, *labels.cells(shown.labels)))
    at = 3 if namespaces else 2
    lines = (table or Columns()).align([*([list(head)] if head else []), *rows])
    for line, cells in zip(lines[1 if head else 0 :], rows, strict=True):
        status = printable(cells[at])
        line[at] = paint(status, colour_of(status), stream or sys.stdout) + line[at][len(status) :]
    return [GAP.join(line).rstrip() for line in lines]


def marked_note(why: Sequence[str], names: Sequence[str]) -> str:
    """Return the note below a table in which the cells of these pods are marked; `why` some of them do not answer."""
    which = f"pod {names[0]}" if len(names) == 1 else f"{len(names)} pods"
    away = f"{', '.join(why)}; " if why else ""
    return f"Note: {away}what is marked with ? is what was last recorded of {which}"


def colour_of(status: str) -> Colour:
    """Return the colour in which a terminal shows a status."""
    word = status.removeprefix("Init:")
    if word.endswith("?"):
        return "dim"
    if word in _GOOD:
        return "green"
    return "yellow" if word in _UNDERWAY or word[:1].isdigit() else "red"
