"""``syncpod fleet remove``: nodes leave the fleet for good."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.arguments import node_names, read_timeout
from syncpod.cli.input.options import NodeNames, StateDir, Timeout

Force = Annotated[
    bool, typer.Option("--force", help="Also remove a node that can be reached, or has pods. Its pods count as gone.")
]


def remove(nodes: NodeNames, force: Force = False, timeout: Timeout = "0", state_dir: StateDir = "") -> None:
    """Remove nodes from the fleet for good, and revoke their certificates.

    Without `--force`, a node that can be reached, or that has pods, is not removed: drain it, and run `syncpod leave`
    on it. Pods of DaemonSets do not count, since they run nowhere else. With `--force`, the pods of Deployments and
    single Pods are replaced on other nodes, and pods with a `spec.nodeName` are lost. A node that can be reached ends
    its pods first, as a kubelet does after `kubectl delete node`. A node that cannot be reached ends its pods when it
    is back, if its certificate is still valid then. Until then its pods may run beside their replacements. After
    `syncpod fleet revoke`, the node cannot connect, and so never ends them.
    """
    names, patience = node_names(nodes), read_timeout(timeout)

    from syncpod.cli.actions.fleet_remove import remove_nodes

    remove_nodes(names, patience, state_dir, force=force)
