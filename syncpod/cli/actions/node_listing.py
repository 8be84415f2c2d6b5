"""The parts of ``get`` and ``describe`` for nodes, which are read from the Temporal server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.api.label_selector import Selector
from syncpod.api.views.node_columns import HEADER, WIDE, document, row
from syncpod.cli.console import remark
from syncpod.cli.description import Descriptions
from syncpod.cli.failure import Failure
from syncpod.cli.listing import Form, FoundObjects, Listed, ListingPrinter
from syncpod.cli.machine.settings import settings
from syncpod.cli.temporal import nodes, session
from syncpod.cli.temporal.nodes import notes_of_ended, read_node, why_absent
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.view.node_description import describe
from syncpod.cli.view.rows import Row
from syncpod.node.loop_stalls import read_loop_stall
from syncpod.settings.worker_record import read_worker_record

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.api.views.node_columns import ListedNode
    from syncpod.cli.fetched import FetchedPod
    from syncpod.node.loop_stalls import LoopStall


def list_nodes(form: Form, things: Mapping[Listed, Sequence[str]]) -> list[str]:
    """Print the nodes among these things, and return a message for each that does not exist. Raises Failure."""
    names = things["Node"]
    with ListingPrinter(form) as listing:
        session.run(lambda client: show_async(listing, lambda: _found_nodes(client, names, listing)))
        listing.end()
    return listing.missing


async def show_async(listing: ListingPrinter, find: Callable[[], Awaitable[FoundObjects]]) -> None:
    """Print the objects of one kind that `find` returns; a watch awaits `find` again and again."""
    found = await find()
    goes_on = listing.begin(found)
    while goes_on:
        await asyncio.sleep(found.pause)
        found = await find()
        listing.go_on(found)


async def _found_nodes(client: Client, names: Sequence[str], listing: ListingPrinter) -> FoundObjects:
    """Return the named nodes, or all. The first list of all has notes about nodes whose workflows have ended."""
    found, missing = await _find(client, names)
    notes = [] if names or listing.has_begun else await _notes_of_absent(client, found)
    now = datetime.now(UTC)
    rows = listing.form.chosen(Row(row(one, now), document(one)) for one in found)
    return FoundObjects("node", listing.form.head(HEADER, WIDE), rows, missing, notes, is_namespaced=False)


def describe_nodes(names: Sequence[str]) -> None:
    """Describe the named nodes, or all. Raises Failure for those that do not exist."""

    async def work(client: Client) -> tuple[list[list[str]], list[str]]:
        found, missing = await _find(client, names)
        if not names:
            notes = await _notes_of_absent(client, found)
            for note in notes or ([] if found else ["No resources found"]):
                remark(note)
        described = {one.name for one in found}
        pods = await TemporalPods(client).listed(None, Selector(()), nodes=described) if found else []
        if found:  # orphans of this machine's node are listed too
            orphans = [one for one in await TemporalPods(client).orphans(None) if one.pod.spec.node_name in described]
            pods = sorted((*pods, *orphans), key=lambda one: one.key)
        now = datetime.now(UTC)
        return [
            describe(one, [pod for pod in pods if _node_of(pod) == one.name], now, _stall_of(one.name)) for one in found
        ], missing

    found, missing = session.run(work)
    descriptions = Descriptions()
    for lines in found:
        descriptions.show(lines)
    descriptions.failures += map(Failure, missing)
    descriptions.end("")


def _stall_of(node: str) -> LoopStall | None:
    """Return the newest stall of a worker's event loop; None if there is none, or the node is not this machine's."""
    state_dir = settings().state_dir
    worker = read_worker_record(state_dir)
    return read_loop_stall(state_dir) if worker is not None and worker.node == node else None


def _node_of(fetched: FetchedPod) -> str:
    return fetched.pod.spec.node_name


async def _notes_of_absent(client: Client, found: Sequence[ListedNode]) -> list[str]:
    """Return notes about the nodes that are missing from a list of all, since their workflows have ended."""
    return [f"Note: {note}" for note in await notes_of_ended(client, [one.name for one in found])]


async def _find(client: Client, names: Sequence[str]) -> tuple[list[ListedNode], list[str]]:
    """Return the nodes, and a message for each that does not exist."""
    if not names:
        return await nodes.list_nodes(client), []
    found = {name: await read_node(client, name) for name in names}
    missing = []
    for name in (name for name, fetched in found.items() if fetched is None):
        why = await why_absent(client, name)
        missing.append(f'nodes "{name}" not found{why and f" ({why})"}')
    return [fetched for fetched in found.values() if fetched is not None], missing
