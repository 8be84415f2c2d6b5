"""``syncpod fleet top``: the CPU and memory usage of pods and nodes of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
    pass

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
    from syncpod.cli.actions.fleet_top import _rows, missing

    found, trouble, placed = _rows(words, len(head) + 2, [node] if node else [], state_dir)
    if names:
        trouble += missing(names, found, placed, None if all_namespaces else namespace)
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
    from syncpod.cli.actions.fleet_top import _rows

    found, trouble, _ = _rows(["top", "node", "--no-headers"], 5, names, state_dir)
    found = sorted(row[:-1] for row in found)
    _print(["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"], found, headers=not no_headers)
    if trouble:
        raise Failure("\n".join(trouble))


for _names, _command in ((POD_WORDS, pod), (NODE_WORDS, node)):
    for _name in _names:
        app.command(_name, cls=Page, hidden=_name != _names[0])(_command)


def _print(head: list[str], rows: list[list[str]], *, headers: bool) -> None:
    if rows:
        say("\n".join(columns([head, *rows] if headers else rows)))
    else:
        remark("No resources found")


def _number(text: str) -> int:
    """Return the number in a cell such as ``12m`` or ``3Mi``."""
    return int("".join(each for each in text if each.isdigit()) or 0)
