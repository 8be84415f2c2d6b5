"""What ``delete`` deletes, of a node alone and of a fleet: the objects, and how they are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from syncpod.api.field_selector import FieldSelector
from syncpod.api.label_selector import Selector
from syncpod.fleet.workload_traits import KINDS


class Thing(NamedTuple):
    """An object that can be deleted."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return it as kubectl prints it: ``deployment.apps "web"``."""
        resource = KINDS[self.kind].resource if self.kind in KINDS else self.kind.lower()
        return f'{resource} "{self.name}"'


@dataclass(frozen=True)
class Selection:
    """Objects to delete, chosen by kind, namespace, labels and fields in place of names."""

    kinds: Sequence[str]
    namespace: str | None
    """None = all namespaces."""
    conditions: Selector
    fields: FieldSelector


@dataclass(frozen=True)
class DeletionRequest:
    """The objects to delete: `things`, or if there is a `selection`, all that match it."""

    things: Sequence[Thing] = ()
    selection: Selection | None = None
    is_bare: bool = False
    """Whether `things` are several names without a kind: the first word may be a misspelt kind."""

    def of(self, kinds: Sequence[str]) -> DeletionRequest:
        """Return the part of the request that is for these kinds."""
        chosen = self.selection
        if chosen is None:
            return DeletionRequest([each for each in self.things if each.kind in kinds], is_bare=self.is_bare)
        some = [kind for kind in chosen.kinds if kind in kinds]
        return DeletionRequest(
            selection=Selection(some, chosen.namespace, chosen.conditions, chosen.fields) if some else None
        )

    @property
    def kinds(self) -> list[str]:
        """The kinds of the requested objects, each once."""
        named = [each.kind for each in self.things] if self.selection is None else self.selection.kinds
        return list(dict.fromkeys(named))


@dataclass(frozen=True)
class Deleting:
    """How things are deleted."""

    kinds: str
    """The kinds that can be deleted, for a sentence: ``pod, configmap or secret``."""
    mark: str = ""
    """Printed after each verb of a dry run; "" if this is not a dry run."""
    force: bool = False
    """Whether pods end although their nodes are away."""
    wait: bool = True
    """Whether to wait until all is gone."""
    patience: timedelta | None = None
    """How long to wait; None = as long as it takes."""
    ignore_not_found: bool = False
