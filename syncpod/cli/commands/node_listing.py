"""The parts of ``get`` and ``describe`` for nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from syncpod.api.label_selector import Selector
from syncpod.api.views.text import GAP, Columns, printable
from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.view.documents import is_of_documents, print_documents
from syncpod.settings.worker_record import read_worker_record

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.fetched import FetchedNode, FetchedPod
    from syncpod.cli.view.label_columns import LabelColumns
    from syncpod.node.loop_stalls import LoopStall

_WATCH_SECONDS: Final = 1.0


def get_nodes(names: Sequence[str], output: str, labels: LabelColumns, *, headers: bool, watch: bool) -> None:
    """Print the named nodes, or all; with `watch`, keep printing those that change.

    Raises Failure for those that do not exist.
    """
    from syncpod.cli.temporal import session

    async def work(client: Client) -> list[str]:
        from syncpod.cli.view.node_table import document

        printer = _Printer(output, labels, headers=headers)
        found, missing = await _find(client, names)
        if is_of_documents(output):
            print_documents([document(one) for one in found], output, single=len(names) == 1, headers=headers)
            return missing
        printer.print_changes(found)
        if not names:
            await _note_absent(client, found)
        while watch and not missing:
            await asyncio.sleep(_WATCH_SECONDS)
            found, _ = await _find(client, names)
            printer.print_changes(found)
        return missing

    if missing := session.run(work):
        raise Failure("\n".join(missing))


class _Printer:
    """Prints nodes as lines, and later only what has changed."""

    def __init__(self, output: str, labels: LabelColumns, *, headers: bool) -> None:
        self._output = output
        self._labels = labels
        self._headers = headers
        self._printed: dict[str, tuple[str, ...]] = {}
        self._table = Columns()

    def print_changes(self, found: Sequence[FetchedNode]) -> None:
        """Print those whose line has changed, apart from the age."""
        from syncpod.cli.view.node_table import HEADER, WIDE, row

        wide, now = self._output == "wide", datetime.now(UTC)
        rows = {one.name: (*row(one, now, wide=wide), *self._labels.cells(one.view.labels)) for one in found}
        before, self._printed = self._printed, {name: _without_age(cells) for name, cells in rows.items()}
        changed = [cells for name, cells in rows.items() if self._printed[name] != before.get(name)]
        if not changed:
            return
        if self._output == "name":
            say("\n".join(f"node/{name}" for name, *_ in changed))
            return
        head = [(*HEADER, *(WIDE if wide else ()), *self._labels.header)] if self._headers else []
        self._headers = False
        say("\n".join(GAP.join(cells).rstrip() for cells in self._table.align([*head, *changed])))


def _without_age(cells: tuple[str, ...]) -> tuple[str, ...]:
    from syncpod.cli.view.node_table import HEADER

    at = HEADER.index("AGE")
    return cells[:at] + cells[at + 1 :]


def describe_nodes(names: Sequence[str]) -> None:
    """Describe the named nodes, or all. Raises Failure for those that do not exist."""
    from syncpod.cli.temporal import session

    async def work(client: Client) -> tuple[list[list[str]], list[str]]:
        from syncpod.cli.temporal.pods import list_pods, lone_pods
        from syncpod.cli.view.node_description import describe

        found, missing = await _find(client, names)
        if not names:
            await _note_absent(client, found)
        nodes = {one.name for one in found}
        pods = await list_pods(client, None, Selector(()), nodes=nodes) if found else []
        if found:  # what runs on this machine's node without a workflow is there too
            lone = [one for one in await lone_pods(client, None) if one.pod.spec.node_name in nodes]
            pods = sorted((*pods, *lone), key=lambda one: one.key)
        now = datetime.now(UTC)
        return [
            describe(one, [pod for pod in pods if _node_of(pod) == one.name], now, _stall_of(one.name)) for one in found
        ], missing

    described, missing = session.run(work)
    if described:
        lines = "\n\n\n".join("\n".join(lines) for lines in described).split("\n")
        say("\n".join(printable(line.expandtabs()) for line in lines))
    if missing:
        raise Failure("\n".join(missing))


def _stall_of(node: str) -> LoopStall | None:
    """Return the newest stall of a node's worker, if it has its state on this machine."""
    from syncpod.cli.machine.settings import settings
    from syncpod.node.loop_stalls import read_loop_stall

    state_dir = settings().state_dir
    worker = read_worker_record(state_dir)
    return read_loop_stall(state_dir) if worker is not None and worker.node == node else None


def _node_of(fetched: FetchedPod) -> str:
    return fetched.pod.spec.node_name


async def _note_absent(client: Client, found: Sequence[FetchedNode]) -> None:
    """Say which nodes are missing from a list of all, since their workflows have ended; or that there is none."""
    from syncpod.cli.temporal.nodes import notes_of_ended

    notes = await notes_of_ended(client, [one.name for one in found])
    for note in notes:
        remark(f"Note: {note}")
    if not found and not notes:
        remark("No resources found")


async def _find(client: Client, names: Sequence[str]) -> tuple[list[FetchedNode], list[str]]:
    """Return the nodes, and a message for each that does not exist."""
    from syncpod.cli.temporal.nodes import list_nodes, read_node, why_absent

    if not names:
        return await list_nodes(client), []
    found = {name: await read_node(client, name) for name in names}
    missing = []
    for name in (name for name, fetched in found.items() if fetched is None):
        why = await why_absent(client, name)
        missing.append(f'nodes "{name}" not found{why and f" ({why})"}')
    return [fetched for fetched in found.values() if fetched is not None], missing
