"""Marks orphans in the output of commands, by an annotation in their Pod. An orphan runs without a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ANNOTATION: Final = "syncpod.dev/orphan"
"""The annotation's name; its value says why the pod has no workflow."""
STATUS: Final = "Orphan"
"""The pod's STATUS in lists."""

NO_WORKFLOW: Final = "its workflow has ended or is missing in the Temporal server; this is its last published state"
"""The annotation's usual value."""


def marked(pod: Mapping[str, Any], why: str) -> dict[str, Any]:
    """Return the pod's document with the mark.

    The rest of the document is the last published state of the pod's workflow.
    """
    metadata = pod["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: why}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


def why_orphaned(pod: Mapping[str, Any]) -> str:
    """Return why a printed pod has no workflow; "" if it has one."""
    metadata = pod.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    why = annotations.get(ANNOTATION) if isinstance(annotations, Mapping) else None
    return why if isinstance(why, str) else ""
