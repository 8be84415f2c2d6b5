"""``syncpod fleet top``: the CPU and memory usage of pods and nodes of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from syncpod.api.views.text import columns
from syncpod.cli.commands import top as local
from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import node_names, pod_names, read_selector
from syncpod.cli.input.kind_words import NODE_WORDS, POD_WORDS
from syncpod.cli.input.options import (
    AllNamespaces,
    Namespace,
    NodesIfAny,
    NoHeaders,
    OfNode,
    PodNames,
    Selector,
    StateDir,
)
from syncpod.cli.manual import Group, Page

if TYPE_CHECKING:
    from temporalio.client import Client

app = typer.Typer(cls=Group, help="Show the CPU and memory usage of the fleet's pods and nodes.", no_args_is_help=True)
_MEASURES = ("CPU(cores)", "MEMORY(bytes)")


def pod(
    what: PodNames = None,
    containers: Annotated[bool, typer.Option("--containers", help="A line for each container.")] = False,
    sort_by: local.SortBy = "",
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    node: OfNode = "",
    no_headers: NoHeaders = False,
    state_dir: StateDir = "",
) -> None:
    """Show the CPU and memory usage of pods on all nodes of the fleet, including pods that are not the fleet's.

    Each node measures for a second, as `syncpod top pods` does there. Nodes that do not answer are named.
    """
    names = pod_names(what or [])
    read_selector(selector)
    if sort_by not in ("", "cpu", "memory"):
        raise BadInput(f"--sort-by: must be cpu or memory, not {sort_by}")
    words = ["top", "pod", "--no-headers", *(["--containers"] if containers else [])]
    words += ["--all-namespaces"] if all_namespaces or names else [f"--namespace={namespace}"]
    words += [f"--selector={selector}"] if selector else []
    is_spaced = all_namespaces or bool(names)
    head = [*(["NAMESPACE"] if is_spaced else []), "POD" if containers else "NAME", *(["NAME"] if containers else [])]
    found, trouble, placed = _rows(words, len(head) + 2, [node] if node else [], state_dir)
    if names:
        trouble += _missing(names, found, placed, None if all_namespaces else namespace)
        found = [row for row in found if row[1] in names and (all_namespaces or row[0] == namespace)]
        if not all_namespaces:
            head, found = head[1:], [row[1:] for row in found]
    at = {"cpu": -3, "memory": -2}.get(sort_by)
    found.sort(key=(lambda row: row) if at is None else (lambda row: (-_number(row[at]), row)))
    if found or not names:
        _print([*head, *_MEASURES, "NODE"], found, headers=not no_headers)
    if trouble:
        raise Failure("\n".join(trouble))


def node(
    what: NodesIfAny = None,
    no_headers: NoHeaders = False,
    state_dir: StateDir = "",
) -> None:
    """Show the CPU and memory usage of the fleet's nodes, including processes outside pods."""
    names = node_names(what) if what else []
    found, trouble, _ = _rows(["top", "node", "--no-headers"], 5, names, state_dir)
    found = sorted(row[:-1] for row in found)
    _print(["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"], found, headers=not no_headers)
    if trouble:
        raise Failure("\n".join(trouble))


for _names, _command in ((POD_WORDS, pod), (NODE_WORDS, node)):
    for _name in _names:
        app.command(_name, cls=Page, hidden=_name != _names[0])(_command)


_Pods: TypeAlias = set[tuple[str, str]]
"""The namespace and the name of each pod."""


def _rows(
    words: list[str], cells: int, nodes: Sequence[str], state_dir: str
) -> tuple[list[list[str]], list[str], _Pods]:
    """Run a command on these nodes ([] = all), and return its rows, errors, and the fleet's pods on these nodes.

    A row has `cells` cells, followed by the node's name. There is one error for each node that did not answer, or on
    which the command failed.
    """
    from syncpod.cli.temporal import fleet

    async def work(client: Client) -> tuple[list[list[str]], list[str], _Pods]:
        from syncpod.cli.fleet_remote_commands import said_by_all

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


def _missing(names: Sequence[str], rows: Sequence[Sequence[str]], placed: _Pods, namespace: str | None) -> list[str]:
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


def _print(head: list[str], rows: list[list[str]], *, headers: bool) -> None:
    if rows:
        say("\n".join(columns([head, *rows] if headers else rows)))
    else:
        remark("No resources found")


def _number(text: str) -> int:
    """Return the number in a cell such as ``12m`` or ``3Mi``."""
    return int("".join(each for each in text if each.isdigit()) or 0)
