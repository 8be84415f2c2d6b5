"""``--sort-by=.metadata.creationTimestamp``: the order of objects by a field's value.

Mirrors kubectl's pkg/cmd/get/sorter.go, v1.36: objects without the field come first; objects with equal values keep
their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from syncpod.cli.failure import BadInput
from syncpod.cli.view.jsonpath import Path, parse_path

_One = TypeVar("_One")


def sort_path(text: str) -> Path:
    """Return the path that ``--sort-by`` names. Raises BadInput."""
    try:
        return parse_path(text)
    except ValueError as wrong:
        raise BadInput(f"--sort-by: {wrong}") from None


def in_order(found: Sequence[_One], path: Path, document_of: Callable[[_One], Mapping[str, Any]]) -> list[_One]:
    """Return the objects sorted by the value at the path: numbers and quantities by size, others as text."""
    from syncpod.pod import parse_quantity

    return sorted(found, key=lambda one: _key(path.find(document_of(one)), lambda text: parse_quantity(text).number))


def _key(values: Sequence[Any], number_of: Callable[[str], Any]) -> tuple[int, Any, str]:
    if not values or values[0] is None:
        return 0, 0, ""
    value = values[0]
    if isinstance(value, bool):
        return 1, int(value), ""
    if isinstance(value, int | float):
        return 1, value, ""
    try:
        return 1, number_of(str(value)), ""
    except ValueError:
        return 2, 0, str(value)
