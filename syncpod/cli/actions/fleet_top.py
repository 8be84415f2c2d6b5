"""Shows the CPU and memory usage of pods and nodes of a fleet, as each node measures it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from syncpod.api.views.text import columns
from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.fleet_remote_commands import output_on_all
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_pods import FoundPod, NotTaken, require_taken

if TYPE_CHECKING:
    from temporalio.client import Client

_MEASURES: Final = ("CPU(cores)", "MEMORY(bytes)")
_Pods: TypeAlias = list[FoundPod]
"""The fleet's pods."""


@dataclass(frozen=True)
class PodUsageRequest:
    """The pods whose usage is shown, and the form of the table."""

    names: Sequence[str]
    """The names of pods of `namespace`; () = all that `namespace` and `selector` choose."""
    namespace: str | None
    """None = all, and no pod is named: then each line begins with its namespace."""
    selector: str
    by_container: bool
    """Whether each container has a line."""
    nodes: Sequence[str]
    """The nodes that are asked; () = all."""
    sort_by: str
    """``cpu`` or ``memory``, the highest first; "" = by name."""
    headers: bool
    with_sum: bool
    """Whether a last line has the sum of all."""


def print_pod_usage(request: PodUsageRequest, state_dir: str) -> None:
    """Print the usage of pods on all nodes that are asked.

    Raises BadInput, and Failure once all is printed, with the pods that are not found and the nodes that do not answer.
    """
    names, is_spaced = request.names, bool(request.names) or request.namespace is None
    words = ["top", "pod", "--no-headers", *(["--containers"] if request.by_container else [])]
    words += ["--all-namespaces"] if is_spaced else [f"--namespace={request.namespace}"]
    words += [f"--selector={request.selector}"] if request.selector else []
    head = ["POD", "NAME"] if request.by_container else ["NAME"]
    head = ["NAMESPACE", *head] if is_spaced else head

    found, trouble, placed = _rows(words, len(head) + len(_MEASURES), request.nodes, state_dir)
    if names:
        given = [] if request.nodes else [(each, one.node.name) for one in placed if (each := one.placed) is not None]
        others = {(each.namespace, each.name, node) for each, node in given if each.is_untaken}
        found = [row for row in found if (row[0], row[1], row[-1]) not in others]
        trouble += _missing(names, found, placed, request.namespace)
        head = head[1:]
        found = [row[1:] for row in found if row[1] in names and row[0] == request.namespace]
    at = {"cpu": -3, "memory": -2}.get(request.sort_by)
    found.sort(key=(lambda row: row) if at is None else (lambda row: (-_number(row[at]), row)))
    if found and request.with_sum:
        blank, cpu, memory = (
            [""] * len(head),
            sum(_number(row[-3]) for row in found),
            sum(_number(row[-2]) for row in found),
        )
        found += [[*blank, "________", "________", ""], [*blank, f"{cpu}m", f"{memory}Mi", ""]]
    if found or not names:
        _print([*head, *_MEASURES, "NODE"], found, headers=request.headers)
    if trouble:
        raise Failure("\n".join(trouble))


def print_node_usage(names: Sequence[str], state_dir: str, *, sort_by: str, headers: bool) -> None:
    """Print the usage of the named nodes, or of all, as `PodUsageRequest.sort_by` says.

    Raises BadInput, and Failure once all is printed, with the nodes that do not answer.
    """
    found, trouble, _ = _rows(["top", "node", "--no-headers"], 5, names, state_dir)
    found = sorted(row[:-1] for row in found)
    if at := {"cpu": 1, "memory": 3}.get(sort_by):
        found.sort(key=lambda row: -_number(row[at]))
    _print(["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"], found, headers=headers)
    if trouble:
        raise Failure("\n".join(trouble))


def _rows(
    words: list[str], cells: int, nodes: Sequence[str], state_dir: str
) -> tuple[list[list[str]], list[str], _Pods]:
    """Run a command on these nodes ([] = all), and return its rows, errors, and the fleet's pods on these nodes.

    A row has `cells` cells, followed by the node's name. There is one error for each node that did not answer, or on
    which the command failed.
    """

    async def work(client: Client) -> tuple[list[list[str]], list[str], _Pods]:
        found, trouble, views = [], [], await fleet.views(client, nodes)
        for one, answer in await output_on_all(client, views, words):
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
        return found, trouble, [FoundPod(view, each.name, each) for view in views for each in view.placed]

    return fleet.run(work, state_dir=state_dir)


def _missing(names: Sequence[str], rows: Sequence[Sequence[str]], placed: _Pods, namespace: str | None) -> list[str]:
    """Return a sentence for each named pod of the namespace without a row."""
    shown = {(row[0], row[1]) for row in rows}
    return [_why_missing(name, placed, namespace) for name in names if (namespace, name) not in shown]


def _why_missing(name: str, placed: _Pods, namespace: str | None) -> str:
    found = [one for one in placed if one.placed is not None and (one.placed.namespace, one.name) == (namespace, name)]
    if not found:
        return f'pods "{name}" not found in the fleet'
    try:
        for one in found:
            require_taken(one)
    except NotTaken as untaken:
        return str(untaken)
    return f'pod "{name}": it has no running container on the nodes that were asked'


def _print(head: list[str], rows: list[list[str]], *, headers: bool) -> None:
    if rows:
        say("\n".join(columns([head, *rows] if headers else rows)))
    else:
        remark("No resources found")


def _number(text: str) -> int:
    """Return the number in a cell such as ``12m`` or ``3Mi``."""
    return int("".join(each for each in text if each.isdigit()) or 0)
