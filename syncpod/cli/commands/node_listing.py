"""The parts of ``get`` and ``describe`` for nodes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import GAP, Columns, printable, remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.view.documents import is_of_documents, print_documents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.client import Client

    from syncpod.cli.readings import NodeReading
    from syncpod.cli.view.label_columns import LabelColumns

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
            print_documents([document(one) for one in found], output, single=len(names) == 1)
            return missing
        printer.print_changes(found)
        if not found and not names:
            remark("No resources found")
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

    def print_changes(self, found: Sequence[NodeReading]) -> None:
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
        from syncpod.cli.temporal.pods import list_recorded
        from syncpod.cli.view.node_description import describe

        found, missing = await _find(client, names)
        pods = await list_recorded(client, None) if found else []
        now = datetime.now(UTC)
        described = [describe(one, [pod for pod in pods if pod.spec.node_name == one.name], now) for one in found]
        return described, missing

    described, missing = session.run(work)
    if described:
        lines = "\n\n\n".join("\n".join(lines) for lines in described).split("\n")
        say("\n".join(printable(line.expandtabs()) for line in lines))
    elif not names:
        remark("No resources found")
    if missing:
        raise Failure("\n".join(missing))


async def _find(client: Client, names: Sequence[str]) -> tuple[list[NodeReading], list[str]]:
    """Return the nodes, and a message for each that does not exist."""
    from syncpod.cli.temporal.nodes import list_nodes, read_node

    if not names:
        return await list_nodes(client), []
    found = {name: await read_node(client, name) for name in names}
    missing = [f'nodes "{name}" not found' for name, reading in found.items() if reading is None]
    return [reading for reading in found.values() if reading is not None], missing
