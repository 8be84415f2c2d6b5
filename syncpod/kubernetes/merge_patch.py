"""JSON merge patches (RFC 7396): the only form in which a node writes to an API server. Values in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
