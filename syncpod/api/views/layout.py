"""Titles and values below each other, as ``describe`` prints them."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from syncpod.api.views.text import GAP, columns, printable

NONE: Final = "<none>"


_NARROWEST: Final = 12
"""No column of a table is cut to fewer characters than this, which every title has room in."""


def pairs(titled: Iterable[tuple[str, Sequence[str]]], *, indent: int = 0, wide: int | None = None) -> Iterator[str]:
    """Yield a line for each title and value: values in one column; with "" first, the rest below the title.

    Values are wrapped if a line would have more than `wide` characters; None = there is room for any.
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
    """Return a line for each key and value, in order of key."""
    return [f"{key}{sign}{value}" for key, value in sorted(values.items())] or [NONE]


def wrapped(text: str, width: int | None) -> list[str]:
    """Return the lines of a text of at most `width` characters each, None = one line. No word is broken."""
    if width is None or len(text) <= width:
        return [text]
    return textwrap.wrap(text, max(width, _NARROWEST), break_long_words=False, break_on_hyphens=False) or [text]


def table(
    rows: Sequence[Sequence[str]], *, wide: int | None, cut: Collection[int], below: Sequence[int] = ()
) -> list[str]:
    """Return the rows in columns. If a line had more than `wide` characters, cells of the columns `cut` are cut.

    `wide` None = there is room for any. The widest of these columns is cut first. If that does not suffice, the columns
    `below` leave the table, one after the other, until the rest fits. Their cells then stand whole below each row, each
    behind its title, which is the column's first cell. Once there is such a line, a further column that may be cut
    leaves the table too, rather than that cells are cut.
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
    """Return the lines below a row for the cells that have left its table; none below the titles themselves."""
    if row is titles or not places:
        return []
    said = "; ".join(f"{titles[place].lower()}: {row[place]}" for place in places)
    return [f"    {line}" for line in wrapped(said, wide - 4)]


def clipped(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with a mark if some are left out."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
