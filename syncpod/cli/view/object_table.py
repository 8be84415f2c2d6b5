"""ConfigMaps and Secrets as the lines of a table, with kubectl's columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from syncpod.api.views.durations import age
from syncpod.api.views.text import GAP, Columns
from syncpod.cli.console import say
from syncpod.cli.view.label_columns import LabelColumns
from syncpod.objects import Kind, ref_of
from syncpod.pod import ConfigMap, Secret

_HEADERS: dict[Kind, tuple[str, ...]] = {
    "ConfigMap": ("NAME", "DATA", "AGE"),
    "Secret": ("NAME", "TYPE", "DATA", "AGE"),
}


def row(found: ConfigMap | Secret, now: datetime, *, with_kind: bool = False) -> tuple[str, ...]:
    """Return the cells of an object's line; DATA counts keys (printers/internalversion/printers.go, v1.36)."""
    name = f"{found.kind.lower()}/{found.metadata.name}" if with_kind else found.metadata.name
    old = age(found.metadata.creation_timestamp, now)
    if isinstance(found, ConfigMap):
        return name, str(len(found.data) + len(found.binary_data)), old
    return name, found.type, str(len(found.data)), old


def print_objects(
    kind: Kind,
    found: Sequence[ConfigMap | Secret],
    output: str,
    labels: LabelColumns,
    headers: bool,
    namespaces: bool,
    with_kind: bool,
    table: Columns,
) -> None:
    """Print objects of one kind as lines, aligned with those printed before to `table`; or only their names."""
    if not found:
        return
    if output == "name":
        say("\n".join(f"{kind.lower()}/{one.metadata.name}" for one in found))
        return
    now = datetime.now(UTC)
    head = (*(("NAMESPACE",) if namespaces else ()), *_HEADERS[kind], *labels.header)
    rows = [
        (
            *((one.metadata.namespace,) if namespaces else ()),
            *row(one, now, with_kind=with_kind),
            *labels.cells(one.metadata.labels),
        )
        for one in found
    ]
    lines = table.align([*([head] if headers else []), *rows])
    say("\n".join(GAP.join(line).rstrip() for line in lines))


def changed_since(before: Sequence[ConfigMap | Secret], now: Sequence[ConfigMap | Secret]) -> list[ConfigMap | Secret]:
    """Return the objects that are new or have changed."""
    known = {ref_of(one): one for one in before}
    return [one for one in now if known.get(ref_of(one)) != one]
