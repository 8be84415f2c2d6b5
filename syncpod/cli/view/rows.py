"""One object as a line of a table, whether a node or a fleet has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from syncpod.api.listed import OfDocument


@dataclass(frozen=True)
class Row(OfDocument):
    """One line of a table, as Kubernetes has it: cells, and their object."""

    cells: tuple[str, ...]
    """Its columns, the name first. The namespace is none of them."""
    document: Mapping[str, Any]
    """The whole object, or its metadata alone."""
    place: str = ""
    """The node of a pod of a fleet: pods on several nodes may have one name."""
    status: str = ""
    """The third cell, if the object is a pod and the second cell is READY; "" = it is none."""
    steady: Any = None
    """What changes only if the object does; None = all cells but ages."""

    @property
    def current(self) -> bool:
        """Whether the object has answered; if not, its cells are marked."""
        return not self.status.endswith("?")

    @property
    def is_settled(self) -> bool:
        """Whether it is a pod that runs and is ready, or has completed."""
        if self.status != "Running":
            return self.status == "Completed"
        ready, _, total = self.cells[1].partition("/")
        return ready == total
