"""Pods as the lines of a table, from their JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO

from syncpod.cli.console import GAP, Columns, paint, printable
from syncpod.cli.listed import ListedPod
from syncpod.cli.view.label_columns import LabelColumns
from syncpod.cli.view.pod_columns import HEADER, WIDE, colour_of, row, uncertain_row

_NO_LABELS = LabelColumns()


def header(*, wide: bool, namespaces: bool, labels: LabelColumns = _NO_LABELS) -> tuple[str, ...]:
    """Return the names of the columns."""
    return (*(("NAMESPACE",) if namespaces else ()), *HEADER, *(WIDE if wide else ()), *labels.header)


def row_of(shown: ListedPod, now: datetime, *, wide: bool = False) -> tuple[str, ...]:
    """Return the cells of a pod; those of one that did not answer are marked with ``?``."""
    if shown.current:
        return row(shown.document, now, wide=wide)
    return uncertain_row(shown.document, now, shown.recorded, wide=wide)


def coloured_lines(
    head: Sequence[str],
    pods: Sequence[ListedPod],
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
    now = datetime.now(UTC)
    rows = []
    for shown in pods:
        name, *rest = row_of(shown, now, wide=wide)
        space = (shown.key[0],) if namespaces else ()
        rows.append((*space, f"pod/{name}" if with_kind else name, *rest, *labels.cells(shown.labels)))
    at = 3 if namespaces else 2
    lines = (table or Columns()).align([*([list(head)] if head else []), *rows])
    for line, cells in zip(lines[1 if head else 0 :], rows, strict=True):
        status = printable(cells[at])
        line[at] = paint(status, colour_of(status), stream or sys.stdout) + line[at][len(status) :]
    return [GAP.join(line).rstrip() for line in lines]
