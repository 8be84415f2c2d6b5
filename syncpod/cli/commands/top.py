"""``syncpod top``: the CPU and memory usage of pods and of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import node_names, pod_names, read_selector
from syncpod.cli.input.kind_words import NODE_WORDS, POD_WORDS
from syncpod.cli.input.options import AllNamespaces, Namespace, NodesIfAny, NoHeaders, PodNames, Selector
from syncpod.cli.manual import Group, Page
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    pass

app = typer.Typer(cls=Group, help="Show the CPU and memory usage of pods and of the node.", no_args_is_help=True)

SortBy = Annotated[str, typer.Option("--sort-by", metavar="cpu|memory", help="Sort by this, the greatest first.")]
Containers = Annotated[bool, typer.Option("--containers", help="A line for each container.")]
WithSum = Annotated[bool, typer.Option("--sum", help="Print the sum in a last line.")]
Watch = Annotated[
    bool,
    typer.Option("--watch", "-w", help="Keep measuring: a terminal draws the table again, else it follows itself."),
]


def pod(
    what: PodNames = None,
    containers: Containers = False,
    sort_by: SortBy = "",
    with_sum: WithSum = False,
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    no_headers: NoHeaders = False,
    watch: Watch = False,
) -> None:
    """Show the CPU and memory usage of this node's pods.

    The runtime is queried twice, a second apart. CPU is the usage in between, in thousandths of a core; memory is the
    working set, which cannot be reclaimed without harm. Pods with no running container are left out. With --watch, the
    runtime is queried every two seconds; if the terminal has too few lines for all pods, only the busiest are shown.
    """
    names = pod_names(what or [])
    conditions = read_selector(selector)
    if sort_by not in ("", "cpu", "memory"):
        raise BadInput(f"--sort-by: must be cpu or memory, not {sort_by}")
    if names and (conditions.requirements or all_namespaces):
        raise BadInput("name pods, or choose them with --selector or --all-namespaces, not both")
    from syncpod.cli.actions.top import Chosen, Table, _measured, tell_what_lacks, watch_pods

    chosen = Chosen(None if all_namespaces else namespace, names, conditions)
    table = Table(containers, all_namespaces, sort_by, with_sum, not no_headers)
    if watch:
        watch_pods(chosen, table)
        return
    measured = _measured()
    found = [each for each in measured.containers if chosen.has(each)]
    if found:
        say("\n".join(table.lines(found)))
    silent = [(name, why) for space, name, why in measured.unmeasured if chosen.may_have(space, name)]
    tell_what_lacks(chosen, found, silent)


def node(
    what: NodesIfAny = None,
    no_headers: NoHeaders = False,
    watch: Watch = False,
) -> None:
    """Show the CPU and memory usage of this machine.

    Everything counts, pods or not. Percentages are of the machine's total. With --watch, it is measured every second.
    """
    from syncpod.cli.actions.top import _node, drawing, node_lines

    here = _node()
    for name in node_names(what) if what else ():
        if name != here:
            raise Failure(f'node "{name}" is not this machine, {here}: run this command there')
    if not watch:
        say("\n".join(node_lines(here, headers=not no_headers)))
        return

    interrupts.enable()
    with drawing() as (draw, _):
        while True:
            draw(node_lines(here, headers=not no_headers))


for _names, _command in ((POD_WORDS, pod), (NODE_WORDS, node)):
    for _name in _names:
        app.command(_name, cls=Page, hidden=_name != _names[0])(_command)
