"""Lists nodes: from this machine's worker if it serves the only one, or without it from the Temporal server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from syncpod.api.client import NOT_FOUND
from syncpod.api.messages import TABLE
from syncpod.api.views.node_columns import HEADER, WIDE
from syncpod.cli.listing import Form, FoundObjects, Listed, ListingPrinter, show
from syncpod.cli.node_api import NodeApi
from syncpod.cli.view.rows import Row

if TYPE_CHECKING:
    from syncpod.api.client import Reply

_WHOLE: Final = (("includeObject", "Object"),)


def list_nodes(form: Form, things: Mapping[Listed, Sequence[str]]) -> list[str]:
    """Print the nodes among these things, and return a message for each that does not exist. Raises Failure."""
    names = things["Node"]
    with ListingPrinter(form) as listing, NodeApi() as api:
        show(listing, lambda: _named(api, names, form) if names else _all(api, listing))
        listing.end()
    return listing.missing


def _all(api: NodeApi, listing: ListingPrinter) -> FoundObjects:
    """Return all nodes. The first list has notes about nodes whose workflows have ended."""
    rows, warnings = api.get("/api/v1/nodes", _WHOLE, accept=TABLE, read=lambda reply: (_rows(reply), reply.warnings))
    notes = [] if listing.has_begun else [f"Note: {each}" for each in warnings]
    return _found(listing.form, rows, notes=notes)


def _named(api: NodeApi, names: Sequence[str], form: Form) -> FoundObjects:
    """Return the nodes of these names, and a message for each that does not exist."""

    def read(reply: Reply) -> list[Row] | str:
        return str(reply.document["message"]) if reply.code == NOT_FOUND else _rows(reply)

    found = [api.get(f"/api/v1/nodes/{name}", _WHOLE, accept=TABLE, read=read) for name in dict.fromkeys(names)]
    missing = [each for each in found if isinstance(each, str)]
    return _found(form, [row for each in found if not isinstance(each, str) for row in each], missing)


def _rows(reply: Reply) -> list[Row]:
    return [Row(tuple(map(str, each["cells"])), each["object"]) for each in reply.document["rows"]]


def _found(form: Form, rows: Sequence[Row], missing: Sequence[str] = (), notes: Sequence[str] = ()) -> FoundObjects:
    head = form.head(HEADER, WIDE)
    return FoundObjects("node", head, form.chosen(rows), [*missing], [*notes], is_namespaced=False)
