"""Objects as the lines of a table, whether a node or a fleet has them; the status of pods is coloured."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from syncpod.api.listed import ListedPod, OfDocument
from syncpod.api.views.pod_columns import HEADER
from syncpod.api.views.tables import pod_row
from syncpod.api.views.text import GAP, Columns, printable
from syncpod.cli.console import Colour, paint

_GOOD: Final = frozenset({"Running", "Completed", "Succeeded"})
_UNDERWAY: Final = frozenset({"Pending", "ContainerCreating", "PodInitializing", "Terminating", "NotReady"})


@dataclass(frozen=True)
class Row(OfDocument):
    """One line of a table: its cells and its object, as in a Table of Kubernetes."""

    cells: tuple[str, ...]
    """The cells, the name first; without the namespace."""
    document: Mapping[str, Any]
    """The whole object, or its metadata alone."""
    place: str = ""
    """The node of a pod of a fleet: pods on several nodes may have one name."""
    status: str = ""
    """A pod's status, which is the third cell, after READY; "" = the object is not a pod."""
    steady: Any = None
    """A value that changes only when the object changes, for a watch; None = all cells except ages."""

    @property
    def current(self) -> bool:
        """Whether the object has answered. If it has not, its cells are marked with ``?``."""
        return not self.status.endswith("?")

    @property
    def is_settled(self) -> bool:
        """Whether the object is a pod that runs and is ready, or that has completed."""
        if self.status != "Running":
            return self.status == "Completed"
        ready, _, total = self.cells[1].partition("/")
        return ready == total


def rows_of(table: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a Table. Raises KeyError, TypeError for another document."""
    return [_row(tuple(map(str, each["cells"])), each["object"]) for each in table["rows"]]


def row_of(shown: ListedPod, now: datetime | None = None) -> Row:
    """Return a pod's row, rendered here; the cells of one that did not answer are marked with ``?``."""
    rendered = pod_row(shown, now or datetime.now(UTC), whole=True)
    return _row(tuple(rendered["cells"]), rendered["object"])


def _row(cells: tuple[str, ...], document: Mapping[str, Any]) -> Row:
    _, ready, status, restarts, _, ip, *_ = cells
    uid = str(document["metadata"].get("uid", ""))
    return Row(cells, document, status=status, steady=(uid, ready, status, restarts.partition(" ")[0], ip))


def coloured_lines(
    head: Sequence[str], pods: Sequence[Row], *, stream: TextIO | None = None, table: Columns | None = None
) -> list[str]:
    """Return the lines of a table of pods without its wide columns. The status is coloured if `stream` takes colours.

    They are aligned with the earlier lines of `table`.
    """
    return painted(head, [one.cells[: len(HEADER)] for one in pods], pods, stream=stream, table=table)


def painted(
    head: Sequence[str],
    cells: Sequence[tuple[str, ...]],
    rows: Sequence[Row],
    *,
    status_at: int = 2,
    stream: TextIO | None = None,
    table: Columns | None = None,
) -> list[str]:
    """Return a table's lines: the `cells` to print for these `rows`, with the statuses of pods coloured.

    An empty `head` is left out. `status_at` is the index of the cell with the status.
    """
    lines = (table or Columns()).align([*([list(head)] if head else []), *cells])
    for line, row, printed in zip(lines[1 if head else 0 :], rows, cells, strict=True):
        if row.status:
            status = printable(printed[status_at])
            line[status_at] = paint(status, colour_of(status), stream or sys.stdout) + line[status_at][len(status) :]
    return [GAP.join(line).rstrip() for line in lines]


def marked_note(why: Sequence[str], names: Sequence[str]) -> str:
    """Return the note below a table with marked pods; `why` has the reasons why some of these pods do not answer."""
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
