"""``syncpod fleet top``: the CPU and memory usage of pods and nodes of a fleet."""

from __future__ import annotations

import typer

from syncpod.cli.commands import top as local
from syncpod.cli.failure import BadInput
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

app = typer.Typer(cls=Group, help="Show the CPU and memory usage of the fleet's pods and nodes.", no_args_is_help=True)


def pod(
    what: PodNames = None,
    containers: local.Containers = False,
    sort_by: local.SortBy = "",
    with_sum: local.WithSum = False,
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

    from syncpod.cli.actions.fleet_top import PodUsageRequest, print_pod_usage

    request = PodUsageRequest(
        tuple(names),
        None if all_namespaces else namespace,
        selector,
        by_container=containers,
        nodes=(node,) if node else (),
        sort_by=sort_by,
        with_sum=with_sum,
        headers=not no_headers,
    )
    print_pod_usage(request, state_dir)


def node(
    what: NodesIfAny = None,
    no_headers: NoHeaders = False,
    state_dir: StateDir = "",
) -> None:
    """Show the CPU and memory usage of the fleet's nodes, including processes outside pods."""
    names = node_names(what) if what else []

    from syncpod.cli.actions.fleet_top import print_node_usage

    print_node_usage(names, state_dir, headers=not no_headers)


for _names, _command in ((POD_WORDS, pod), (NODE_WORDS, node)):
    for _name in _names:
        app.command(_name, cls=Page, hidden=_name != _names[0])(_command)
