"""A pod as lists show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Recorded:
    """What Temporal recorded last of a pod's columns."""

    status: str = ""
    """STATUS; "" = not known."""
    restarts: int | None = None
    """RESTARTS; None = not known."""
    created: str = ""
    """When the pod was created, as on the wire; "" = not known: then its document has when its run began."""


NOTHING_RECORDED: Final = Recorded()


RECORDED_ANNOTATION: Final = "syncpod.dev/recorded"
"""Marks a Pod whose workflow did not answer: its value says why, and what is shown in its place."""


def why_recorded(pod: Mapping[str, Any]) -> str:
    """Return why a Pod's workflow did not answer, as a predicate of the pod; "" = it has answered.

    `pod` is its document, or has its metadata alone.
    """
    return str((pod["metadata"].get("annotations") or {}).get(RECORDED_ANNOTATION, "")).rpartition("; ")[0]


class OfDocument:
    """The properties of an object that its document has, a whole one or one of its metadata alone."""

    document: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.document["metadata"]["name"])

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return str(self.document["metadata"].get("namespace", "")), self.name

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        labels: Mapping[str, str] = self.document["metadata"].get("labels") or {}
        return labels


@dataclass(frozen=True)
class ListedPod(OfDocument):
    """A pod of which only the JSON is needed."""

    document: dict[str, Any]
    """The Pod as ``get -o json`` prints it."""
    current: bool = True
    """Whether it answered; if not, the document has only what Temporal recorded last."""
    recorded: Recorded = NOTHING_RECORDED
    """If it did not answer: its columns as they were recorded last."""
