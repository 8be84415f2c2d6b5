"""The columns of ``-o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image``.

Mirrors kubectl's pkg/cmd/get/customcolumn.go, v1.36: several values are joined with commas, objects and lists are
printed as Go prints them, and a missing value is ``<none>``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncpod.cli.view.jsonpath import Path, parse_path, text_of

_NONE: Final = "<none>"
_COMMAS: Final = re.compile(r",(?![^\[]*\])")
"""The commas between columns, but not the commas in brackets."""


@dataclass(frozen=True)
class CustomColumns:
    """Columns with their paths."""

    header: tuple[str, ...]
    paths: tuple[Path, ...]

    def row(self, document: Mapping[str, Any]) -> list[str]:
        """Return the cells of an object."""
        return [",".join(map(_printed, found)) if (found := path.find(document)) else _NONE for path in self.paths]


def parse_columns(text: str) -> CustomColumns:
    """Read the columns, ``NAME:PATH`` with commas between them. Raises ValueError with the part that is wrong."""
    names, paths = [], []
    for part in _COMMAS.split(text):
        name, colon, path = part.partition(":")
        if not colon or not name.strip() or not path.strip():
            raise ValueError(f"{part!r}: write NAME:PATH, such as NAME:.metadata.name")
        names.append(name.strip())
        paths.append(parse_path(path))
    return CustomColumns(tuple(names), tuple(paths))


def parse_template(text: str) -> CustomColumns:
    """Read a template: a line of names, and below it a line of paths. Raises ValueError."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        raise ValueError("the template must have a line of names, and a line with a path for each")
    return CustomColumns(tuple(lines[0]), tuple(map(parse_path, lines[1])))


def _printed(value: Any) -> str:
    if value is None:
        return _NONE
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{_printed(value[key])}' for key in sorted(value))}]"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{' '.join(map(_printed, value))}]"
    return text_of(value)
