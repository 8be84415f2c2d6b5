"""Reads the request of ``delete``, for a node alone and for a fleet: the objects, and how they are deleted.

A request names objects in exactly one way, as in kubectl's pkg/cmd/delete/delete.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from syncpod.api.field_selector import FieldSelector
from syncpod.api.label_selector import Selector
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import read_field_selector, read_selector
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


def words_of_files(words: Sequence[str] | None, files: Callable[[], Sequence[Thing]]) -> tuple[list[str], str]:
    """Return the words that name the objects of the manifests of ``get -f``, and their namespace.

    `files` reads the manifests. Raises BadInput, also for several namespaces, and if there are `words` as well.
    """
    if words:
        raise BadInput("name what to list, or give its manifest with -f, not both")
    things = files()
    namespaces = {each.namespace for each in things}
    if len(namespaces) > 1:
        raise BadInput(f"-f: is of several namespaces ({', '.join(sorted(namespaces))}): choose one with --namespace")
    return [f"{each.kind.lower()}/{each.name}" for each in things], next(iter(namespaces), "default")


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


def read_request(
    words: Sequence[str],
    things: Mapping[str, Sequence[str]],
    files: Callable[[], Sequence[Thing]] | None,
    *,
    others: str,
    namespace: str,
    all_namespaces: bool,
    selector: str,
    field_selector: str,
    everything: bool,
) -> DeletionRequest:
    """Return the request that the words, the manifests or the flags of ``delete`` make. Raises BadInput.

    `things` are the kinds and names that were read from `words`; a kind without names is for a selection. `files` reads
    the manifests; None if none were given. `others` is the hint for a flag without a kind; it has ``{flag}`` in it.
    """
    conditions, of_pods = read_selector(selector), set(things) == {"Pod"}
    fields = read_field_selector(field_selector, of_pods=of_pods)
    if fields.fields and not of_pods:
        raise BadInput("--field-selector: only pods are deleted by their fields")
    selects = bool(conditions.requirements or fields.fields)
    is_named = any(things.values())
    if sum([is_named, files is not None, selects or everything or all_namespaces]) != 1 or (files and words):
        raise BadInput("say what to delete, in one of these ways: NAME..., -f FILE, -l SELECTOR or --all")
    if files is not None:
        return DeletionRequest(files())
    if not (words or selects):  # as with kubectl, --all or --all-namespaces alone names no kind
        flag = "--all" if everything else "--all-namespaces"
        raise BadInput(f"{flag}: say of which kind: {others.format(flag=flag)}")
    if not is_named:
        scope = None if all_namespaces else namespace or "default"
        return DeletionRequest(selection=Selection(list(things), scope, conditions, fields))
    named = [Thing(kind, namespace or "default", name) for kind, names in things.items() for name in names]
    return DeletionRequest(named, is_bare=len(words) > 1 and dict(things) == {"Pod": list(dict.fromkeys(words))})


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
