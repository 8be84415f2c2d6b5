"""Reads JSON of an API server, which may have any value in any place: one of another type counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of JSON; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list; its other values are left out, and anything else has none."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []
