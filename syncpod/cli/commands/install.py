"""``syncpod install`` and ``syncpod uninstall``: the node of this machine as systemd units."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.options import StateDir

PrintUnits = Annotated[bool, typer.Option("--print", help="Only print the units.")]


def install(state_dir: StateDir = "", print_: PrintUnits = False) -> None:
    """Have systemd serve this machine's node, also after a reboot.

    The node is the one that `syncpod up` has started, with its settings: its processes are ended and started again as
    systemd units, and the pods run on meanwhile. As root the units are the system's, else yours. Each unit is restarted
    when it ends; none of them ends a pod when it is stopped. Variables of your shell that configure Temporal,
    telemetry, proxies and syncpod are kept for the units in a file that only you can read.
    """
    from syncpod.cli.actions.install import install_node

    install_node(state_dir, only_print=print_)


def uninstall(state_dir: StateDir = "") -> None:
    """Remove the systemd units of this machine's node.

    Its units are stopped and removed. The pods run on, and `syncpod up` serves them again.
    """
    from syncpod.cli.actions.install import uninstall_node

    uninstall_node(state_dir)
