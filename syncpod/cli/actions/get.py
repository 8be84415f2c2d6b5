"""Lists pods: from this machine's worker, or without one from the Temporal server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syncpod.api.listed import why_recorded
from syncpod.api.views.pod_columns import HEADER, WIDE
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.listing import Form, FoundObjects, Listed, ListingPrinter, show
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import orphan_notes
from syncpod.cli.view.documents import picks_fields
from syncpod.cli.view.rows import Row, marked_note, rows_of
from syncpod.node.orphan_mark import why_orphaned


def list_pods(form: Form, things: Mapping[Listed, Sequence[str]]) -> list[str]:
    """Print the pods among these things, and return a message for each that does not exist. Raises Failure."""
    with ListingPrinter(form) as listing:
        show_pods(listing, things["Pod"])
        listing.end()
    return listing.missing


def show_pods(listing: ListingPrinter, names: Sequence[str]) -> None:
    """Print the pods of these names, or all that the form selects, and the changes of a watch. Raises Failure."""
    with NodeApi() as api:
        show(listing, lambda: _pods(api, names, listing.form))


def _pods(api: NodeApi, names: Sequence[str], form: Form) -> FoundObjects:
    """Return the pods, with notes about those that did not answer or have no workflow. Raises Failure."""
    # Without whole objects, some rows may be the server's last records. A table marks them, a list of names cannot.
    whole = not form.is_table or form.order is not None
    reply = api.table("pods", form.namespace, names, {**form.query, "includeObject": "Object" if whole else ""})
    rows = rows_of(reply.document)
    missing = [no_such_pod(name, form.namespace or "") for name in sorted(set(names) - {one.name for one in rows})]
    notes = orphan_notes(one.document for one in rows)
    if marked := [one.name for one in rows if not one.current or (form.is_table and why_orphaned(one.document))]:
        notes.append(marked_note(reply.warnings, marked))
    if picks_fields(form.output):  # missing fields would look like empty ones
        missing += [f'pod "{one.name}" {why_recorded(one.document)}' for one in rows if _is_bare(one)]
    return FoundObjects("pod", form.head(HEADER, WIDE), rows, missing, notes)


def _is_bare(pod: Row) -> bool:
    """Return whether only the server's record of a pod is known, which has no spec."""
    return bool(why_recorded(pod.document)) and not pod.document["spec"].get("containers")
