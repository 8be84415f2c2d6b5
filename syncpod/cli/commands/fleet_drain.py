"""``syncpod fleet drain``: move the pods of nodes elsewhere, before maintenance."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.arguments import node_names, read_dry_run, read_timeout
from syncpod.cli.input.options import DryRun, NodeNames, StateDir, Timeout
from syncpod.cli.maintenance import Draining

Force = Annotated[bool, typer.Option("--force", help="Also end pods that name the node in `spec.nodeName`.")]
IgnoreDaemonSets = Annotated[
    bool, typer.Option("--ignore-daemonsets", help="Leave the pods of DaemonSets where they are.")
]
DeleteData = Annotated[
    bool, typer.Option("--delete-emptydir-data", help="Also move pods with an emptyDir, whose data is lost.")
]
SkipWait = Annotated[
    int,
    typer.Option(
        "--skip-wait-for-delete-timeout",
        metavar="SECONDS",
        min=0,
        help="Do not wait for a pod that has been ending for longer than this; 0 = wait for each.",
    ),
]


def drain(
    nodes: NodeNames,
    force: Force = False,
    ignore_daemonsets: IgnoreDaemonSets = False,
    delete_emptydir_data: DeleteData = False,
    skip_wait_for_delete_timeout: SkipWait = 0,
    timeout: Timeout = "0",
    dry_run: DryRun = "none",
    state_dir: StateDir = "",
) -> None:
    """Move the pods of nodes elsewhere: cordon the nodes, and have their pods replaced on other nodes.

    A Deployment's pods are replaced as in a rollout, within its `maxSurge` and `maxUnavailable`: with a surge, a pod is
    removed once another one is available elsewhere. A single Pod is removed before it runs elsewhere. The command
    prints what the drain waits for. The fleet goes on with the drain even if this command ends. `fleet uncordon` stops
    it for the pods that are still there. If one of several nodes cannot be drained, the others are drained all the
    same.
    """
    how = Draining(
        force=force,
        ignore_daemon_sets=ignore_daemonsets,
        delete_data=delete_emptydir_data,
        patience=read_timeout(timeout),
        mark=read_dry_run(dry_run),
    )
    names = node_names(nodes)

    from syncpod.cli.actions.fleet_change import drain_nodes

    drain_nodes(names, how, skip_wait_for_delete_timeout, state_dir)
