"""``syncpod install`` and ``syncpod uninstall``: the node of this machine as systemd units."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import StateDir
from syncpod.cli.machine import systemd
from syncpod.cli.machine.systemd_units import (
    FLEET_GATE,
    FLEET_WORKER,
    NODE_UNITS,
    RUNTIME,
    SERVER,
    WORKER,
)

PrintUnits = Annotated[bool, typer.Option("--print", help="Only print the units.")]


def install(state_dir: StateDir = "", print_: PrintUnits = False) -> None:
    """Have systemd serve this machine's node, also after a reboot.

    The node is the one that `syncpod up` has started, with its settings: its processes are ended and started again as
    systemd units, and the pods run on meanwhile. As root the units are the system's, else yours. Each unit is restarted
    when it ends; none of them ends a pod when it is stopped. Variables of your shell that configure Temporal,
    telemetry, proxies and syncpod are kept for the units in a file that only you can read.
    """
    from syncpod.cli.machine.ending import end_all
    from syncpod.cli.machine.settings import kept_settings, settings
    from syncpod.cli.machine.state_directory import recorded_worker
    from syncpod.cli.machine.units_of_node import units_for
    from syncpod.settings.table import first_difference

    here = settings(state_dir=state_dir)
    directory = here.state_dir
    worker = recorded_worker(directory)
    if worker is None:
        raise BadInput(
            f"no node of {directory} was started with `{program()} up`, whose settings the units would have: "
            "start it so first"
        )
    # The units have the recorded socket; a link to it is the same runtime.
    kept = kept_settings(directory).variables
    if differs := first_difference(kept, here.given, apart_from=("runtime_endpoint",)):
        raise BadInput(f"the node of {directory} was started {differs}: start it so first with `{program()} up`")
    units = units_for(directory, worker)
    from syncpod.cli.actions.install import show, write

    if print_:
        show(directory, units)
        return
    systemd.require_booted()
    systemd.require_ours(directory, units)
    systemd.remove(name for name in systemd.installed(directory, NODE_UNITS) if name not in units)
    changed = write(directory, units)
    end_all(directory)
    systemd.start([name for name in (SERVER, RUNTIME, WORKER) if name in units], changed)
    say(f"node/{worker.node} is served by {', '.join(sorted(units))}")
    tell_of_login()


def uninstall(state_dir: StateDir = "") -> None:
    """Remove the systemd units of this machine's node.

    Its units are stopped and removed. The pods run on, and `syncpod up` serves them again.
    """
    from syncpod.cli.machine.settings import settings

    directory = settings(state_dir=state_dir).state_dir
    there = systemd.installed(directory, NODE_UNITS)
    if shared := systemd.installed(directory, (FLEET_WORKER, FLEET_GATE)):
        there.pop(SERVER, None)
    from syncpod.cli.actions.install import remove

    removed = remove(directory, there)
    if not removed:
        remark(f"No units of the node of {directory} are installed")
        return
    say(f"{', '.join(removed)} removed; the pods keep running, and `{program()} up` serves them again")
    if shared and SERVER in systemd.installed(directory, (SERVER,)):
        remark(f"Note: {SERVER} stays, for {', '.join(sorted(shared))}")


def tell_of_login() -> None:
    """Let a user's units start at boot, and print a note if that is not possible."""
    if not systemd.is_system() and (why := systemd.linger()):
        remark(
            "Note: your units begin when you log in, and end with your last session: "
            f"`sudo loginctl enable-linger $USER` has them begin at boot ({why})"
        )
