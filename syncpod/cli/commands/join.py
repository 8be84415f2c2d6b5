"""``syncpod join`` and ``syncpod leave``: this machine's node, and the fleet that it belongs to."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import StateDir
from syncpod.cli.machine.settings import settings


def join(
    invitation: Annotated[str, typer.Argument(metavar="FILE|-", hidden=True, show_default=False)] = "",
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="ADDRESS:PORT",
            help="Where the fleet's machine can reach this node directly; `none` = nowhere. A port alone means the "
            "loopback address.",
            show_default="as before, at first none",
        ),
    ] = "",
    state_dir: StateDir = "",
) -> None:
    """Join a fleet with this machine's node.

    FILE is an invitation from `syncpod fleet invite`, and `-` is standard input. A running worker notices within
    seconds; after that the file can be removed. The node keeps running its own pods. It runs the fleet's pods even
    while the fleet cannot be reached. Pods of an earlier fleet end, since the new fleet's list does not have them.

    With --listen, the node also accepts TLS connections from the fleet's machine, and from no other, for `fleet exec
    -it`, `attach` and `port-forward`. Give an address that the fleet's machine can reach; 0.0.0.0 stands for all
    addresses of the node. A node that already belongs to a fleet can change the address without FILE.
    """
    here = settings(state_dir=state_dir)
    if here.kubeconfig is not None:
        raise BadInput(
            f"this node is part of the Kubernetes cluster of {here.kubeconfig}, so it cannot be part of a fleet: "
            "see `syncpod up --no-kubeconfig`"
        )
    if not invitation and not listen:
        raise BadInput("name the file that `syncpod fleet invite` has written, or where to --listen")

    from syncpod.cli.actions.join import join_fleet

    join_fleet(here, invitation, listen)


def leave(state_dir: StateDir = "") -> None:
    """Leave the fleet that this machine's node belongs to.

    The fleet's pods keep running. They end when the node joins another fleet, which has its own list.
    """
    here = settings(state_dir=state_dir)

    from syncpod.cli.actions.leave import leave_fleet

    leave_fleet(here.state_dir)
