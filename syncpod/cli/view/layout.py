"""Titles and values below each other, as ``describe`` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

NONE: Final = "<none>"


def pairs(titled: Iterable[tuple[str, Sequence[str]]], *, indent: int = 0) -> Iterator[str]:
    """Yield a line for each title and value: values in one column; with "" first, the rest below the title."""
    listed = [(title, list(values)) for title, values in titled]
    width = max((len(title) for title, _ in listed), default=0) + 3
    margin = " " * indent
    for title, values in listed:
        first, rest = (values[0], values[1:]) if values else (NONE, [])
        yield f"{margin}{f'{title}:':<{width}}{first or ('' if rest else NONE)}".rstrip()
        deeper = " " * (width if first else 2)
        for value in rest:
            yield f"{margin}{deeper}{value}".rstrip()


def mapping(values: Mapping[str, str], sign: str = "=") -> list[str]:
    """Return a line for each key and value, in order of key."""
    return [f"{key}{sign}{value}" for key, value in sorted(values.items())] or [NONE]
