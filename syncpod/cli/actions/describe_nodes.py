"""Describes nodes, which are read from the Temporal server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.api.label_selector import Selector
from syncpod.cli.console import remark
from syncpod.cli.description import Descriptions
from syncpod.cli.failure import Failure
from syncpod.cli.machine.settings import settings
from syncpod.cli.temporal import nodes, session
from syncpod.cli.temporal.nodes import notes_of_ended, read_node, why_absent
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.view.node_description import describe
from syncpod.node.loop_stalls import read_loop_stall
from syncpod.settings.worker_record import read_worker_record

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.api.listed_node import ListedNode
    from syncpod.cli.fetched import FetchedPod
    from syncpod.node.loop_stalls import LoopStall


def describe_nodes(names: Sequence[str]) -> None:
    """Describe the named nodes, or all. Raises Failure for those that do not exist."""

    async def work(client: Client) -> tuple[list[list[str]], list[str]]:
        found, missing = await _find(client, names)
        if not names:
            notes = [f"Note: {note}" for note in await notes_of_ended(client, [one.name for one in found])]
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
