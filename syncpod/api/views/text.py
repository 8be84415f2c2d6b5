"""Text for a terminal: columns, without control characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

GAP: Final = "   "
"""The gap between two columns: three blanks, as in kubectl."""


def printable(text: str) -> str:
    """Return a text with control characters escaped, so that they are visible and have no effect on a terminal."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


class Columns:
    """A table that is printed in parts: later rows have at least the column widths of earlier ones."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def align(self, rows: Sequence[Sequence[str]]) -> list[list[str]]:
        """Pad each column but the last to its widest cell so far.

        Cells are made :func:`printable`: otherwise a newline in a message would look like another row.
        """
        rows = [[printable(cell) for cell in row] for row in rows]
        widest = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
        self._widths = [max(pair) for pair in zip_longest(self._widths, widest, fillvalue=0)]
        return [
            [*(cell.ljust(width) for cell, width in zip(row[:-1], self._widths, strict=False)), *row[-1:]]
            for row in rows
        ]


def align(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Pad each column but the last to its widest cell."""
    return Columns().align(rows)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with the cells of all rows in columns, as kubectl prints them."""
    return [GAP.join(line).rstrip() for line in align(rows)]
