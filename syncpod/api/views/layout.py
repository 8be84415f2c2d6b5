"""Lays out titles with values, and tables, for the width of a terminal, as ``describe`` prints them."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from syncpod.api.views.text import GAP, columns, printable

NONE: Final = "<none>"


_NARROWEST: Final = 12
"""The fewest characters to which a column of a table is cut. Every title fits into it."""


def pairs(titled: Iterable[tuple[str, Sequence[str]]], *, indent: int = 0, wide: int | None = None) -> Iterator[str]:
    """Yield lines with each title and its values, all values in one column.

    If the first value is "", the other values are below the title. Values are wrapped if a line would have more than
    `wide` characters; None = no limit.
    """
    listed = [(title, list(values)) for title, values in titled]
    width = max((len(title) for title, _ in listed), default=0) + 3
    margin = " " * indent
    for title, values in listed:
        values = [line for value in values for line in wrapped(value, wide and wide - width - indent)]
        first, rest = (values[0], values[1:]) if values else (NONE, [])
        yield f"{margin}{f'{title}:':<{width}}{first or ('' if rest else NONE)}".rstrip()
        deeper = " " * (width if first else 2)
        for value in rest:
            yield f"{margin}{deeper}{value}".rstrip()


def mapping(values: Mapping[str, str], sign: str = "=") -> list[str]:
    """Return a line for each key and value, in order of key; ``<none>`` for an empty mapping."""
    return [f"{key}{sign}{value}" for key, value in sorted(values.items())] or [NONE]


def wrapped(text: str, width: int | None) -> list[str]:
    """Return a text in lines of at most `width` characters; None = in one line. No word is broken."""
    if width is None or len(text) <= width:
        return [text]
    return textwrap.wrap(text, max(width, _NARROWEST), break_long_words=False, break_on_hyphens=False) or [text]


def table(
    rows: Sequence[Sequence[str]], *, wide: int | None, cut: Collection[int], below: Sequence[int] = ()
) -> list[str]:
    """Return a table in lines of at most `wide` characters; None = no limit. The first row has the titles.

    Cells of the columns `cut` are shortened, in the widest column first. If that does not suffice, the columns `below`
    are removed from the table, one after the other, until the rest fits. Their cells are then printed whole in a line
    below each row, each after its title. Once a column is below, the next one in `below` is removed too if it could
    only fit shortened.
    """
    if wide is None or not rows:
        return columns(rows)
    rows = [[printable(cell) for cell in row] for row in rows]
    places = range(len(rows[0]))
    for moved in range(len(below) + 1):
        kept = [place for place in places if place not in below[:moved]]
        widths = {place: max(len(row[place]) for row in rows) for place in kept}
        rather_moves = 0 < moved < len(below) and below[moved] in cut
        may_cut = [] if rather_moves else [place for place in cut if place in widths]
        least = sum(min(width, _NARROWEST) if place in may_cut else width for place, width in widths.items())
        if least + len(GAP) * (len(kept) - 1) <= wide:
            break
    while sum(widths.values()) + len(GAP) * (len(kept) - 1) > wide:
        widest = max(may_cut, key=widths.__getitem__, default=None)
        if widest is None or widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
    lines = columns([[clipped(row[place], widths[place]) for place in kept] for row in rows])
    return [
        text
        for row, line in zip(rows, lines, strict=True)
        for text in (line, *_below(row, rows[0], below[:moved], wide))
    ]


def _below(row: Sequence[str], titles: Sequence[str], places: Sequence[int], wide: int) -> list[str]:
    """Return the lines below a row with the cells of the removed columns; none below the row of titles."""
    if row is titles or not places:
        return []
    said = "; ".join(f"{titles[place].lower()}: {row[place]}" for place in places)
    return [f"    {line}" for line in wrapped(said, wide - 4)]


def clipped(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with ``…`` at its end if it is shortened."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
