"""Renders ConfigMaps and Secrets as kubectl does: the lines of a table, and a description (describe.go, v1.36).

Pure. A description shows only the sizes of a Secret's values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from syncpod.api.views.durations import age
from syncpod.api.views.layout import mapping, pairs
from syncpod.objects import values
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


def describe(found: ConfigMap | Secret) -> list[str]:
    """Return the lines of a description."""
    meta = found.metadata
    head = [
        ("Name", [meta.name]),
        ("Namespace", [meta.namespace]),
        ("Labels", mapping(meta.labels)),
        ("Annotations", mapping(meta.annotations, ": ")),
    ]
    if isinstance(found, Secret):
        head.append(("Type", [found.type]))
    if found.immutable:
        head.append(("Immutable", ["true"]))
    body = _of_secret(found) if isinstance(found, Secret) else _of_config_map(found)
    return [*pairs(head), "", "Data", "====", *body]


def _of_secret(secret: Secret) -> Iterator[str]:
    yield from pairs((key, [f"{len(value)} bytes"]) for key, value in sorted(values(secret).items()))


def _of_config_map(config_map: ConfigMap) -> Iterator[str]:
    for key, text in sorted(config_map.data.items()):
        yield from (f"{key}:", "----", *text.splitlines(), "")
    yield from ("", "BinaryData", "====")
    binary = values(config_map.model_copy(update={"data": {}}))
    yield from (f"{key}: {len(value)} bytes" for key, value in sorted(binary.items()))
