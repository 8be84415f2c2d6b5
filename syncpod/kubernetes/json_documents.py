"""Reads JSON of an API server, and makes merge patches (RFC 7396), by which a node changes objects.

A field of such JSON may have a value of any type; a value of an unexpected type counts as absent. Values in, values
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; an empty one if `value` is anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the JSON objects in a list, without its other values; [] if `value` is no list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that turns `before` into `after`; {} if they are the same. Lists are replaced whole.

    A field that is null in `after` counts as absent, since a patch cannot set a field to null.
    """
    patch: dict[str, Any] = {name: None for name in before if after.get(name) is None}
    for name, value in after.items():
        old = before.get(name)
        if value is None or value == old:
            continue
        patch[name] = merge_patch(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return patch
