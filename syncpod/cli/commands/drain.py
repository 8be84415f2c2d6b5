"""``cordon``, ``uncordon`` and ``drain``, alone and of ``fleet``: whether nodes take pods; end pods for maintenance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import node_names, read_dry_run, read_selector, read_timeout
from syncpod.cli.input.contexts import InFleet, OnlyFleet, OnlyNode
from syncpod.cli.input.options import DryRun, GracePeriod, NodeNames, StateDir, Timeout
from syncpod.cli.maintenance import Draining


@dataclass(frozen=True)
class CordonOptions:
    """The options of `cordon`, `uncordon`, `fleet cordon` and `fleet uncordon`."""

    nodes: NodeNames
    state_dir: OnlyFleet[StateDir] = ""


@dataclass(frozen=True)
class DrainOptions:
    """The options of `drain` and `fleet drain`."""

    nodes: NodeNames
    force: Annotated[
        bool,
        typer.Option("--force", help="Also end pods that nothing creates again: here, all that were applied."),
        InFleet("Also end pods that name the node in `spec.nodeName`."),
    ] = False
    delete_emptydir_data: Annotated[
        bool,
        typer.Option("--delete-emptydir-data", help="Also end pods with an emptyDir, whose data is lost."),
        InFleet("Also move pods with an emptyDir, whose data is lost."),
    ] = False
    ignore_daemonsets: Annotated[
        bool,
        typer.Option("--ignore-daemonsets", help="Leave pods of DaemonSets; only a Kubernetes cluster has them."),
        InFleet("Leave the pods of DaemonSets where they are."),
    ] = False
    pod_selector: OnlyNode[
        Annotated[
            str,
            typer.Option("--pod-selector", metavar="SELECTOR", help="Only pods with these labels, as for `get -l`."),
        ]
    ] = ""
    grace_period: OnlyNode[GracePeriod] = -1
    skip_wait_for_delete_timeout: OnlyFleet[
        Annotated[
            int,
            typer.Option(
                "--skip-wait-for-delete-timeout",
                metavar="SECONDS",
                min=0,
                help="Do not wait for a pod that has been ending for longer than this; 0 = wait for each.",
            ),
        ]
    ] = 0
    timeout: Timeout = "0"
    dry_run: DryRun = "none"
    state_dir: OnlyFleet[StateDir] = ""


def cordon(given: CordonOptions) -> None:
    """Mark a node as unschedulable: it takes no new pods.

    Its pods, and those of its manifest directory, keep running, also across restarts of the node.
    """
    names = node_names(given.nodes)

    from syncpod.cli.actions.drain import change_nodes

    change_nodes(names, "cordon")


def uncordon(given: CordonOptions) -> None:
    """Mark a node as schedulable: it takes new pods again."""
    names = node_names(given.nodes)

    from syncpod.cli.actions.drain import change_nodes

    change_nodes(names, "uncordon")


def drain(given: DrainOptions) -> None:
    """Drain nodes: cordon them, and end their pods.

    Pods from a node's manifest directory stay, and are listed: static pods end when their files are removed. A drain
    cannot end a pod that runs without a workflow: end such a pod with `syncpod prune` first. Nor can it end a pod of a
    Kubernetes cluster, which would bring the pod back: `kubectl drain` does. As with kubectl, no pod of a node is ended
    if one of them must not be ended.
    """
    names, how = node_names(given.nodes), _how(given)
    if given.grace_period < -1:
        raise BadInput("--grace-period: must be 0 or more seconds")
    grace = None if given.grace_period == -1 else given.grace_period
    conditions = read_selector(given.pod_selector, "--pod-selector")

    from syncpod.cli.actions.drain import drain_nodes

    drain_nodes(names, conditions, grace, how)


def fleet_cordon(given: CordonOptions) -> None:
    """Place no new pods on these nodes. Existing pods keep running."""
    names = node_names(given.nodes)

    from syncpod.cli.actions.fleet_change import set_nodes_schedulable

    set_nodes_schedulable(names, "cordon", given.state_dir)


def fleet_uncordon(given: CordonOptions) -> None:
    """Place new pods on these nodes again."""
    names = node_names(given.nodes)

    from syncpod.cli.actions.fleet_change import set_nodes_schedulable

    set_nodes_schedulable(names, "uncordon", given.state_dir)


def fleet_drain(given: DrainOptions) -> None:
    """Move the pods of nodes elsewhere: cordon the nodes, and have their pods replaced on other nodes.

    A Deployment's pods are replaced as in a rollout, within its `maxSurge` and `maxUnavailable`: with a surge, a pod is
    removed once another one is available elsewhere. A single Pod is removed before it runs elsewhere. The command
    prints what the drain waits for. The fleet goes on with the drain even if this command ends. `fleet uncordon` stops
    it for the pods that are still there. If one of several nodes cannot be drained, the others are drained all the
    same.
    """
    names, how = node_names(given.nodes), _how(given)

    from syncpod.cli.actions.fleet_change import drain_nodes

    drain_nodes(names, how, given.skip_wait_for_delete_timeout, given.state_dir)


def _how(given: DrainOptions) -> Draining:
    """Return how the nodes are drained. Raises BadInput."""
    return Draining(
        force=given.force,
        ignore_daemon_sets=given.ignore_daemonsets,
        delete_data=given.delete_emptydir_data,
        patience=read_timeout(given.timeout),
        mark=read_dry_run(given.dry_run),
    )
