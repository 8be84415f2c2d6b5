"""What ``describe configmap`` and ``describe secret`` print, as kubectl lays it out (describe.go, v1.36).

Pure. For the values of a Secret, only the sizes are shown.
"""

from __future__ import annotations

from collections.abc import Iterator

from syncpod.api.views.layout import mapping, pairs
from syncpod.objects import values
from syncpod.pod import ConfigMap, Secret


def describe(found: ConfigMap | Secret) -> list[str]:
    """Return the lines."""
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
