"""``syncpod cordon``, ``uncordon`` and ``drain``: set whether nodes take new pods; end their pods for maintenance."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import node_names, read_dry_run, read_selector, read_timeout
from syncpod.cli.input.options import DryRun, GracePeriod, NodeNames, Timeout
from syncpod.cli.maintenance import Draining

Force = Annotated[
    bool, typer.Option("--force", help="Also end pods that nothing creates again: here, all that were applied.")
]
DeleteData = Annotated[
    bool, typer.Option("--delete-emptydir-data", help="Also end pods with an emptyDir, whose data is lost.")
]
IgnoreDaemonSets = Annotated[
    bool, typer.Option("--ignore-daemonsets", help="Leave pods of DaemonSets; only a Kubernetes cluster has them.")
]
PodSelector = Annotated[
    str, typer.Option("--pod-selector", metavar="SELECTOR", help="Only pods with these labels, as for `get -l`.")
]


def cordon(nodes: NodeNames) -> None:
    """Mark a node as unschedulable: it takes no new pods.

    Its pods, and those of its manifest directory, keep running, also across restarts of the node.
    """
    names = node_names(nodes)

    from syncpod.cli.actions.drain import change_nodes

    change_nodes(names, "cordon")


def uncordon(nodes: NodeNames) -> None:
    """Mark a node as schedulable: it takes new pods again."""
    names = node_names(nodes)

    from syncpod.cli.actions.drain import change_nodes

    change_nodes(names, "uncordon")


def drain(
    nodes: NodeNames,
    force: Force = False,
    delete_emptydir_data: DeleteData = False,
    ignore_daemonsets: IgnoreDaemonSets = False,
    pod_selector: PodSelector = "",
    grace_period: GracePeriod = -1,
    timeout: Timeout = "0",
    dry_run: DryRun = "none",
) -> None:
    """Drain nodes: cordon them, and end their pods.

    Pods from a node's manifest directory stay, and are listed: static pods end when their files are removed. A drain
    cannot end a pod that runs without a workflow: end such a pod with `syncpod prune` first. Nor can it end a pod of a
    Kubernetes cluster, which would bring the pod back: `kubectl drain` does. As with kubectl, no pod of a node is ended
    if one of them must not be ended.
    """
    names = node_names(nodes)
    if grace_period < -1:
        raise BadInput("--grace-period: must be 0 or more seconds")
    grace, conditions = None if grace_period == -1 else grace_period, read_selector(pod_selector, "--pod-selector")
    how = Draining(
        force=force,
        ignore_daemon_sets=ignore_daemonsets,
        delete_data=delete_emptydir_data,
        patience=read_timeout(timeout),
        mark=read_dry_run(dry_run),
    )

    from syncpod.cli.actions.drain import drain_nodes

    drain_nodes(names, conditions, grace, how)
