"""``syncpod down``: delete the pods, and end what ``up`` has started."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import read_timeout
from syncpod.cli.input.options import Node, StateDir
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import memory_directory_of
from syncpod.settings.table import MEMORY_DIR


def down(
    state_dir: StateDir = "",
    node: Node = "",
    keep_pods: Annotated[bool, typer.Option("--keep-pods", help="Leave the pods running for the next `up`.")] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Also remove the state directory: database, logs, Secrets, everything.")
    ] = False,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="How long the pods may take to end.",
            show_default="their longest grace period and 30s",
        ),
    ] = "0",
) -> None:
    """Delete this node's pods, and end what `up` started.

    The pods are stopped with their own grace periods. Processes that `up` has not started are left alone.
    """
    patience = read_timeout(timeout)
    here = settings(node=node, state_dir=state_dir)
    memory = memory_directory_of(here, is_named=bool(os.environ.get(MEMORY_DIR.variable)))
    if keep_pods and purge:
        raise BadInput("either --keep-pods or --purge: pods cannot keep running without their state")

    from syncpod.cli.actions.down import take_down

    take_down(here, memory, patience, keep_pods=keep_pods, purge=purge)
