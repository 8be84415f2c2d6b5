"""``syncpod fleet remove``: nodes leave the fleet for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.commands.fleet_certificates import issued_by
from syncpod.cli.console import say
from syncpod.cli.failure import Failure
from syncpod.cli.input.arguments import read_timeout
from syncpod.cli.input.options import NodeNames, StateDir, Timeout

if TYPE_CHECKING:
    from temporalio.client import Client


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
    from syncpod.cli.actions.fleet_remove import How, remove_node, revoke
    from syncpod.cli.machine.fleet_home import open_here
    from syncpod.cli.temporal import fleet

    authority, how = open_here(state_dir), How(force, read_timeout(timeout))
    names = list(dict.fromkeys(name.rpartition("/")[2] for name in nodes))

    async def work(client: Client) -> None:
        there = {each.name for each in await fleet.summaries(client)}
        known = there | {each.node for each in issued_by(authority) if not each.revoked}
        if missing := [name for name in names if name not in known]:
            raise Failure("\n".join(f'nodes "{name}" not found in the fleet' for name in missing))
        for name in names:
            if name in there:
                await remove_node(client, authority, name, how)
            else:
                revoke(authority, name)  # it was invited, and has never joined
            say(f"node/{name} removed")

    fleet.run(work, state_dir=state_dir)
