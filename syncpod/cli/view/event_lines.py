"""Events as the lines of a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from syncpod.api.views.events import HEADER, WIDE, PodEvent, cells_of
from syncpod.api.views.text import GAP, Columns
from syncpod.cli.console import paint


def lines(
    events: Sequence[PodEvent], now: datetime, *, wide: bool, namespaces: bool, headers: bool, table: Columns
) -> list[str]:
    """Return the lines of events, aligned with those printed before to `table`. Warnings are coloured on a terminal."""
    rows = [[*((event.namespace,) if namespaces else ()), *cells_of(event, now, wide=wide)] for event in events]
    head = [[*(("NAMESPACE",) if namespaces else ()), *(WIDE if wide else HEADER)]] if headers else []
    aligned = table.align([*head, *rows])
    at = 2 if namespaces else 1
    for line, row in zip(aligned[len(head) :], rows, strict=True):
        line[at] = paint("Warning", "yellow") + line[at][len("Warning") :] if row[at] == "Warning" else line[at]
    return [GAP.join(line).rstrip() for line in aligned]
