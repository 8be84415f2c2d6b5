"""``syncpod top`` and ``syncpod fleet top``: the CPU and memory usage of pods and of nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import node_names, pod_names, read_selector
from syncpod.cli.input.contexts import Context, OnlyFleet, OnlyNode, with_parameters
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
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    from syncpod.api.label_selector import Selector as Conditions

top = typer.Typer(cls=Group, help="Show the CPU and memory usage of pods and of the node.", no_args_is_help=True)
fleet_top = typer.Typer(
    cls=Group, help="Show the CPU and memory usage of the fleet's pods and nodes.", no_args_is_help=True
)


def _usage(name: str) -> str:
    """Return what rows are sorted by; "" = the name. Raises BadInput."""
    if name not in ("", "cpu", "memory"):
        raise BadInput(f"--sort-by: must be cpu or memory, not {name}")
    return name


Watch = Annotated[
    bool,
    typer.Option("--watch", "-w", help="Keep measuring: a terminal draws the table again, else it follows itself."),
]

SortByUsage = Annotated[
    str, typer.Option("--sort-by", metavar="cpu|memory", help="Sort by this, the greatest first.", callback=_usage)
]


@dataclass(frozen=True)
class TopPodOptions:
    """The options of `top pod` and `fleet top pod`."""

    what: PodNames = None
    containers: Annotated[bool, typer.Option("--containers", help="A line for each container.")] = False
    sort_by: SortByUsage = ""
    with_sum: Annotated[bool, typer.Option("--sum", help="Print the sum in a last line.")] = False
    namespace: Namespace = "default"
    all_namespaces: AllNamespaces = False
    selector: Selector = ""
    node: OnlyFleet[OfNode] = ""
    no_headers: NoHeaders = False
    watch: OnlyNode[Watch] = False
    state_dir: OnlyFleet[StateDir] = ""


@dataclass(frozen=True)
class TopNodeOptions:
    """The options of `top node` and `fleet top node`."""

    what: NodesIfAny = None
    sort_by: SortByUsage = ""
    no_headers: NoHeaders = False
    watch: OnlyNode[Watch] = False
    state_dir: OnlyFleet[StateDir] = ""


def pod(given: TopPodOptions) -> None:
    """Show the CPU and memory usage of this node's pods.

    The runtime is queried twice, a second apart. CPU is the usage in between, in thousandths of a core; memory is the
    working set, which cannot be reclaimed without harm. Pods with no running container are left out. With --watch, the
    runtime is queried every two seconds; if the terminal has too few lines for all pods, only the busiest are shown.
    """
    names, namespace, conditions = _chosen(given)

    from syncpod.cli.actions.top import Chosen, Table, _measured, note_missing, watch_pods

    chosen = Chosen(namespace, names, conditions)
    table = Table(given.containers, given.all_namespaces, given.sort_by, given.with_sum, not given.no_headers)
    if given.watch:
        watch_pods(chosen, table)
        return
    measured = _measured()
    found = [each for each in measured.containers if chosen.has(each)]
    if found:
        say("\n".join(table.lines(found)))
    silent = [(name, why) for space, name, why in measured.unmeasured if chosen.may_have(space, name)]
    note_missing(chosen, found, silent)


def fleet_pod(given: TopPodOptions) -> None:
    """Show the CPU and memory usage of pods on all nodes of the fleet, including pods that are not the fleet's.

    Each node measures for a second, as `syncpod top pods` does there. Nodes that do not answer are named.
    """
    names, namespace, _ = _chosen(given)

    from syncpod.cli.actions.fleet_top import PodUsageRequest, print_pod_usage

    request = PodUsageRequest(
        names,
        namespace,
        given.selector,
        by_container=given.containers,
        nodes=[given.node] if given.node else [],
        sort_by=given.sort_by,
        with_sum=given.with_sum,
        headers=not given.no_headers,
    )
    print_pod_usage(request, given.state_dir)


def node(given: TopNodeOptions) -> None:
    """Show the CPU and memory usage of this machine.

    Everything counts, pods or not. Percentages are of the machine's total. With --watch, it is measured every second.
    """
    from syncpod.cli.actions.top import _node, drawing, node_lines

    here = _node()
    for name in node_names(given.what) if given.what else ():
        if name != here:
            raise Failure(f'node "{name}" is not this machine, {here}: run this command there')
    if not given.watch:
        say("\n".join(node_lines(here, headers=not given.no_headers)))
        return

    interrupts.enable()
    with drawing() as (draw, _):
        while True:
            draw(node_lines(here, headers=not given.no_headers))


def fleet_node(given: TopNodeOptions) -> None:
    """Show the CPU and memory usage of the fleet's nodes, including processes outside pods."""
    names = node_names(given.what) if given.what else []

    from syncpod.cli.actions.fleet_top import print_node_usage

    print_node_usage(names, given.state_dir, sort_by=given.sort_by, headers=not given.no_headers)


def _chosen(given: TopPodOptions) -> tuple[list[str], str | None, Conditions]:
    """Return the named pods, the namespace (None = all), and the conditions of --selector. Raises BadInput."""
    names, conditions = pod_names(given.what or []), read_selector(given.selector)
    if names and (conditions.requirements or given.all_namespaces):
        raise BadInput("name pods, or choose them with --selector or --all-namespaces, not both")
    return names, None if given.all_namespaces else given.namespace, conditions


def _add(app: typer.Typer, command: Callable[..., None], words: tuple[str, ...], context: Context) -> None:
    for word in words:
        app.command(word, cls=Page, hidden=word != words[0])(with_parameters(command, context))


_add(top, pod, POD_WORDS, Context.NODE)
_add(top, node, NODE_WORDS, Context.NODE)
_add(fleet_top, fleet_pod, POD_WORDS, Context.FLEET)
_add(fleet_top, fleet_node, NODE_WORDS, Context.FLEET)
