"""Samples, the rows of a table, and tables in Markdown that are also readable in a terminal."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_HEADINGS = ("", "engine", "bare calls", "ratio", "aim", "met", "")


@dataclass(frozen=True)
class Figure:
    """Samples of one quantity, at least one, in `unit`."""

    samples: tuple[float, ...]
    unit: str = "ms"

    @property
    def median(self) -> float:
        """The median of the samples."""
        return statistics.median(self.samples)

    def __str__(self) -> str:
        """Return the median, and the range if the samples differ: ``214 ms (201–260)``."""
        median = f"{_short(self.median)} {self.unit}".rstrip()
        least, most = _short(min(self.samples)), _short(max(self.samples))
        return median if least == most else f"{median} ({least}–{most})"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    engine: Figure
    bare: Figure | None = None
    """The same work by bare CRI calls, measured in turn with the engine; None = there is no such measurement."""
    aim: float | None = None
    """The target: an upper limit of the ratio if there is a bare figure, else of the engine's figure. None = no
    target."""
    remark: str = ""

    @property
    def ratio(self) -> float | None:
        """The engine's median divided by the bare median."""
        return self.engine.median / self.bare.median if self.bare else None

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None without one."""
        if self.aim is None:
            return None
        return (self.engine.median if self.ratio is None else self.ratio) <= self.aim


def render(rows: Sequence[Row]) -> str:
    """Return the table of the rows, in their order."""
    lines = [_HEADINGS, *(_cells(row) for row in rows)]
    if not any(line[-1] for line in lines):
        lines = [line[:-1] for line in lines]
    return markdown(lines)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first row has the headings."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join((lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]))


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


def _short(value: float) -> str:
    """Format with three significant digits, or fewer if the value has fewer."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
