"""ConfigMaps and Secrets as the lines of a table, with kubectl's columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from syncpod.api.views.durations import age
from syncpod.pod import ConfigMap, Secret

HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "ConfigMap": ("NAME", "DATA", "AGE"),
    "Secret": ("NAME", "TYPE", "DATA", "AGE"),
}
"""The names of the columns, by kind."""


def row(found: ConfigMap | Secret, now: datetime) -> tuple[str, ...]:
    """Return the cells of an object's line; DATA counts keys (printers/internalversion/printers.go, v1.36)."""
    name, old = found.metadata.name, age(found.metadata.creation_timestamp, now)
    if isinstance(found, ConfigMap):
        return name, str(len(found.data) + len(found.binary_data)), old
    return name, found.type, str(len(found.data)), old
