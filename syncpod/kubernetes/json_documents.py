"""Reads JSON of an API server, and makes the merge patches (RFC 7396) by which a node changes it.

Such JSON may have any value in any place: one of another type counts as absent. Merge patches are the only form in
which a node writes to an API server. Values in, values out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of JSON; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list; its other values are left out, and anything else has none."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that makes an object another one. Lists are replaced whole; {} if both are the same.

    A field that is null in `after` counts as absent, since a patch cannot set one to null.
    """
    patch: dict[str, Any] = {name: None for name in before if after.get(name) is None}
    for name, value in after.items():
        old = before.get(name)
        if value is None or value == old:
            continue
        patch[name] = merge_patch(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return patch
