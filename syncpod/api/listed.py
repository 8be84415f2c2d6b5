"""A pod in a list: its JSON, and whether its workflow answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Recorded:
    """A pod's columns as the Temporal server recorded them last."""

    status: str = ""
    """STATUS; "" = not known."""
    restarts: int | None = None
    """RESTARTS; None = not known."""
    created: str = ""
    """When the pod was created, in RFC 3339; "" = not known: then the document has the time of its workflow's run."""


NOTHING_RECORDED: Final = Recorded()


RECORDED_ANNOTATION: Final = "syncpod.dev/recorded"
"""Marks a Pod whose workflow did not answer. The value says why, and which state is shown instead."""


def why_recorded(pod: Mapping[str, Any]) -> str:
    """Return why a Pod's workflow did not answer, as a predicate of the pod; "" = it answered.

    `pod` is the whole Pod, or only its metadata under ``metadata``.
    """
    return str((pod["metadata"].get("annotations") or {}).get(RECORDED_ANNOTATION, "")).rpartition("; ")[0]


class OfDocument:
    """Properties that are read from an object's document, which may be the whole object or its metadata only."""

    document: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.document["metadata"]["name"])

    @property
    def key(self) -> tuple[str, str]:
        """The object's namespace and name."""
        return str(self.document["metadata"].get("namespace", "")), self.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The object's labels."""
        labels: Mapping[str, str] = self.document["metadata"].get("labels") or {}
        return labels


@dataclass(frozen=True)
class ListedPod(OfDocument):
    """A pod as JSON, without its model."""

    document: dict[str, Any]
    """The Pod as ``get -o json`` prints it."""
    current: bool = True
    """Whether the document is its workflow's answer. If not, the workflow did not answer, and the document has only the
    Temporal server's last record."""
    recorded: Recorded = NOTHING_RECORDED
    """The recorded columns, if the workflow did not answer."""
