"""The work of ``syncpod fleet top``: the CPU and memory usage of pods and nodes of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from syncpod.cli.console import remark
from syncpod.cli.failure import Failure
from syncpod.cli.fleet_remote_commands import said_by_all
from syncpod.cli.temporal import fleet

if TYPE_CHECKING:
    from temporalio.client import Client


_Pods: TypeAlias = set[tuple[str, str]]
"""The namespace and the name of each pod."""


def _rows(
    words: list[str], cells: int, nodes: Sequence[str], state_dir: str
) -> tuple[list[list[str]], list[str], _Pods]:
    """Run a command on these nodes ([] = all), and return its rows, errors, and the fleet's pods on these nodes.

    A row has `cells` cells, followed by the node's name. There is one error for each node that did not answer, or on
    which the command failed.
    """

    async def work(client: Client) -> tuple[list[list[str]], list[str], _Pods]:
        found, trouble, views = [], [], await fleet.views(client, nodes)
        for one, answer in await said_by_all(client, views, words):
            if isinstance(answer, Failure):
                trouble.append(str(answer))
            elif answer[0]:
                trouble.append(f"node {one.name}: {answer[2].strip().removeprefix('syncpod: ')}")
            else:
                for line in answer[2].splitlines():
                    if line.startswith("Note: "):
                        remark(f"Note: node {one.name}: {line.removeprefix('Note: ')}")
                # Names and quantities have no blanks. A line of another form is not a row.
                rows = [line.split() for line in answer[1].splitlines()]
                found += [[*row, one.name] for row in rows if len(row) == cells]
        return found, trouble, {(each.namespace, each.name) for view in views for each in view.placed}

    return fleet.run(work, state_dir=state_dir)


def missing(names: Sequence[str], rows: Sequence[Sequence[str]], placed: _Pods, namespace: str | None) -> list[str]:
    """Return a sentence for each named pod without a row; `namespace` None = any."""
    shown = {(row[0], row[1]) for row in rows}

    def has(pods: _Pods, name: str) -> bool:
        return any(each == name and space in (namespace or space,) for space, each in pods)

    return [
        f'pod "{name}": it has no running container on the nodes that were asked'
        if has(placed, name)
        else f'pods "{name}" not found in the fleet'
        for name in names
        if not has(shown, name)
    ]
