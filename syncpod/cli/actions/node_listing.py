"""The parts of ``get`` and ``describe`` for nodes, by the node's API: a worker answers if it serves the only node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from syncpod.api.client import NOT_FOUND, OURS
from syncpod.api.messages import JSON, TABLE
from syncpod.api.views.node_columns import HEADER, WIDE
from syncpod.cli.console import remark
from syncpod.cli.description import Descriptions
from syncpod.cli.failure import Failure
from syncpod.cli.listing import Form, FoundObjects, Listed, ListingPrinter, show
from syncpod.cli.node_api import NodeApi
from syncpod.cli.view.rows import Row

if TYPE_CHECKING:
    from syncpod.api.client import Reply

_Read = TypeVar("_Read")

_NODES: Final = "/api/v1/nodes"
_DESCRIPTIONS: Final = f"{OURS}/nodedescriptions"
_WHOLE: Final = (("includeObject", "Object"),)


def list_nodes(form: Form, things: Mapping[Listed, Sequence[str]]) -> list[str]:
    """Print the nodes among these things, and return a message for each that does not exist. Raises Failure."""
    names = things["Node"]
    with ListingPrinter(form) as listing, NodeApi() as api:
        show(listing, lambda: _found(api, names, listing))
        listing.end()
    return listing.missing


def describe_nodes(names: Sequence[str]) -> None:
    """Describe the named nodes, or all. Raises Failure for those that do not exist."""

    def lines(document: Mapping[str, Any]) -> list[str]:
        return list(document["lines"])

    descriptions, missing = Descriptions(), list[str]()
    with NodeApi() as api:
        if names:
            found, missing = _named(api, _DESCRIPTIONS, names, lambda reply: lines(reply.document))
        else:
            found, notes = api.get(
                _DESCRIPTIONS, read=lambda reply: ([*map(lines, reply.document["items"])], _notes(reply))
            )
            for note in notes or ([] if found else ["No resources found"]):
                remark(note)
    for each in found:
        descriptions.show(each)
    descriptions.failures += map(Failure, missing)
    descriptions.end("")


def _found(api: NodeApi, names: Sequence[str], listing: ListingPrinter) -> FoundObjects:
    """Return the named nodes, or all. The first list of all has notes about nodes whose workflows have ended."""
    missing, notes = list[str](), list[str]()
    if names:
        tables, missing = _named(api, _NODES, names, _rows, _WHOLE, accept=TABLE)
        rows = [row for table in tables for row in table]
    else:
        rows, notes = api.get(_NODES, _WHOLE, accept=TABLE, read=lambda reply: (_rows(reply), _notes(reply)))
    form, notes = listing.form, [] if listing.has_begun else notes
    return FoundObjects("node", form.head(HEADER, WIDE), form.chosen(rows), missing, notes, is_namespaced=False)


def _named(
    api: NodeApi,
    path: str,
    names: Sequence[str],
    read: Callable[[Reply], _Read],
    query: Sequence[tuple[str, str]] = (),
    *,
    accept: str = JSON,
) -> tuple[list[_Read], list[str]]:
    """Return the result of `read` for each named object, and a message for each that does not exist."""
    missing: list[str] = []

    def found(reply: Reply) -> list[_Read]:
        if reply.code == NOT_FOUND:
            missing.append(str(reply.document["message"]))
            return []
        return [read(reply)]

    return [one for name in names for one in api.get(f"{path}/{name}", query, accept=accept, read=found)], missing


def _rows(reply: Reply) -> list[Row]:
    return [Row(tuple(map(str, each["cells"])), each["object"]) for each in reply.document["rows"]]


def _notes(reply: Reply) -> list[str]:
    return [f"Note: {each}" for each in reply.warnings]
