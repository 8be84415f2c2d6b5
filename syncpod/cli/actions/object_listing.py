"""The parts of ``get`` and ``describe`` for this machine's ConfigMaps and Secrets, and for lists of several kinds.

They read the objects' files by the models, which a list of pods alone does without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.cli.actions.describe import end_descriptions, show_descriptions
from syncpod.cli.actions.get import show_pods
from syncpod.cli.description import Descriptions
from syncpod.cli.input.arguments import read_selector
from syncpod.cli.listing import Form, FoundObjects, Listed, ListingPrinter, show
from syncpod.cli.machine.object_store import find
from syncpod.cli.view.data_objects import HEADERS, describe, row
from syncpod.cli.view.rows import Row
from syncpod.pod import pod_to_wire

if TYPE_CHECKING:
    from syncpod.cli.input.kind_words import Kind
    from syncpod.objects import Kind as ObjectKind


def list_objects(form: Form, things: Mapping[Listed, Sequence[str]]) -> list[str]:
    """Print pods and objects, one kind after another; return a message for each that does not exist. Raises Failure."""
    with ListingPrinter(form) as listing:
        for kind, names in things.items():
            if kind == "Pod":
                show_pods(listing, names)
            elif kind != "Node":
                _show_objects(listing, kind, names)
        listing.end()
    return listing.missing


def describe_objects(things: Mapping[Kind, Sequence[str]], namespace: str, selector: str, words: Sequence[str]) -> None:
    """Describe pods and objects, one kind after another. Raises Failure for those that do not exist.

    `words` are the arguments that name the things.
    """
    descriptions, missing, conditions = Descriptions(), list[str](), read_selector(selector)
    for kind, names in things.items():
        if kind == "Pod":
            missing += show_descriptions(descriptions, names, namespace, selector)
            continue
        found, absent = find(kind, names, namespace, conditions)
        for one in found:
            descriptions.show(describe(one))
        missing += absent
    end_descriptions(descriptions, missing, namespace, words)


def _show_objects(listing: ListingPrinter, kind: ObjectKind, names: Sequence[str]) -> None:
    """Print the ConfigMaps or the Secrets, and the changes of a watch."""

    def objects() -> FoundObjects:
        found, missing = find(kind, names, listing.form.namespace, listing.form.conditions)
        now, documents = datetime.now(UTC), map(pod_to_wire, found)
        rows = [Row(row(one, now), document, steady=document) for one, document in zip(found, documents, strict=True)]
        return FoundObjects(kind.lower(), HEADERS[kind], listing.form.chosen(rows), missing)

    show(listing, objects)
