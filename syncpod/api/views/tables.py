"""Tables of meta.k8s.io/v1, as kubectl requests them: rows of cells, each with its object's metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from syncpod.api.listed import ListedPod
from syncpod.api.views.pod_columns import row, uncertain_row


def column_definitions(names: Sequence[str], *, hidden: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the definitions of these columns. kubectl shows the `hidden` ones only with ``-o wide``."""
    return [
        {
            "name": name if name == "IP" else name.title(),
            "type": "string",
            "format": "name" if name == "NAME" else "",
            "description": "",
            "priority": int(name in hidden),
        }
        for name in names
    ]


def table_head(columns: Sequence[str], wide: Sequence[str]) -> dict[str, Any]:
    """Return a Table without its rows. kubectl shows the `wide` columns only with ``-o wide``."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": ""},
        "columnDefinitions": column_definitions((*columns, *wide), hidden=wide),
    }


def pod_row(pod: ListedPod, now: datetime, *, whole: bool = False) -> dict[str, Any]:
    """Return a pod's row with all columns. Its object is the Pod's metadata; with `whole`, the Pod."""
    if pod.current:
        cells = row(pod.document, now, wide=True)
    else:
        cells = uncertain_row(pod.document, now, pod.recorded, wide=True)
    return {"cells": list(cells), "object": pod.document if whole else partial_metadata(pod.document)}


def partial_metadata(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": document["metadata"],
    }
