"""The table, in Markdown that also reads well in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from bench.figures import Row

_HEADINGS = ("", "engine", "bare calls", "ratio", "aim", "met", "")


def render(rows: Sequence[Row]) -> str:
    """Return the table of the rows, in their order."""
    lines = [_HEADINGS, *(_cells(row) for row in rows)]
    if not any(line[-1] for line in lines):
        lines = [line[:-1] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join((texts[0], rule, *texts[1:]))


def _cells(row: Row) -> tuple[str, ...]:
    times = "" if row.ratio is None else f"{row.ratio:.2f} ×"
    if row.aim is None:
        aim = ""
    elif row.ratio is None:
        aim = f"≤ {row.aim:g} {row.engine.unit}".rstrip()
    else:
        aim = f"≤ {row.aim:g} ×"
    met = {None: "", True: "yes", False: "NO"}[row.met]
    return row.what, str(row.engine), str(row.bare) if row.bare else "", times, aim, met, row.remark
